"""Without async: leave a note for a colleague, who reads it later.

    python examples/blocking.py

It starts a broker if none runs, prints

    the note is queued
    dora reads: The build is green. (from carl)
    carl sees: read

and ends by itself.
"""

import palaver


def main() -> None:
    """Write to somebody who is away, and look what became of it."""
    with palaver.connect_sync("dora"):
        pass  # known from now on, and away again
    with palaver.connect_sync("carl") as carl:
        note = carl.send("dora", "The build is green.")
        print(f"the note is {note.status}")
        with palaver.connect_sync("dora") as dora:
            for message in dora.messages(wait_s=10):
                print(f"dora reads: {message.body} (from {message.sender})")
                dora.confirm([message])
        print(f"carl sees: {carl.status(note.id)['dora']}")


if __name__ == "__main__":
    main()
