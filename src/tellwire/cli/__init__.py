"""For people: the `tellwire` command.

Here are `main` and `fast`, the quick path of `send`, `inbox` and `list`, with all that it imports (`render`,
`screen`, `shapes`, `tables`, `words`): a package of their own would cost it an import. Beside it are
`launch`, which starts a broker, `app`, and what every click command shares. Imports everything beneath; what
a broker does only by asking it. Nothing imports `cli`.
"""
