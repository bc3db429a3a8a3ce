"""Several machines: the exchange of numbered items between two brokers, sealed, over any carrier."""
