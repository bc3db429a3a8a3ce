"""The terminal console: paints what `views` says, sends what a person asks for. Decides nothing.

The only home of Textual, which comes with the extra `console`. Text of agents is painted as it is: no widget
here parses markup.
"""
