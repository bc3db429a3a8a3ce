"""Without async: leave a note for a colleague, who reads it later.

    python examples/blocking.py

It starts a broker if none runs, prints

    the note is queued
    note-reader reads: The build is green. (from note-writer)
    note-writer sees: read

and ends by itself.
"""

import tellwire


def main() -> None:
    """Write to somebody who is away, and look what became of it."""
    with tellwire.connect_sync("note-reader"):
        pass  # known from now on, and away again
    with tellwire.connect_sync("note-writer") as writer:
        note = writer.send("note-reader", "The build is green.")
        print(f"the note is {note.status}")
        with tellwire.connect_sync("note-reader") as reader:
            for message in reader.messages(wait_s=10):
                print(f"note-reader reads: {message.body} (from {message.sender})")
        print(f"note-writer sees: {writer.status(note.id)['note-reader']}")


if __name__ == "__main__":
    main()
