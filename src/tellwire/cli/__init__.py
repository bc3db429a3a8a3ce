"""For people: the `tellwire` command.

Here are `main` and `fast`, the quick path of `send`, `inbox` and `list`, with everything that it imports
(`render`, `screen`, `shapes`, `tables`, `words`): a package of their own would cost it an import. There are
also `launch`, which starts a broker, `app`, and what every click command shares. May import everything below;
it changes state only by asking the broker. Nothing imports `cli`.
"""
