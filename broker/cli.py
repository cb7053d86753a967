"""The `agentloop` command: the composition root. Imports what a sub-command needs when it runs."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from agentloop import __version__
from broker.commands import ALL, EXIT_USAGE

EPILOG = """\
examples:
  agentloop compress "Why did the build fail?" build.log
  agentloop compress "How are retries scheduled?" ~/src/project --budget 2000
  agentloop compress "What was decided about billing?" conversations.json --format json
  make test 2>&1 | agentloop compress "Which test failed first?" - . --task debug_with_local_context

exit status: 0 a pack, 2 usage, 3 an input could not be used, 4 no pack could be made
"""


def build_parser() -> argparse.ArgumentParser:
    """The whole command line; building it imports nothing heavy."""
    parser = argparse.ArgumentParser(
        prog="agentloop",
        description="Ask a question about local files; get a small pack of verified evidence.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"agentloop {__version__}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    for command in ALL:
        command.add_parser(commands)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit status."""
    parser = build_parser()
    args = parser.parse_args(argv)
    try:
        status: int = args.run(args)
    except KeyboardInterrupt:
        print("agentloop: interrupted", file=sys.stderr)
        return 130
    except BrokenPipeError:
        # the reader of our output went away: nothing more to say to it
        sys.stderr.close()
        return EXIT_USAGE
    return status


if __name__ == "__main__":
    sys.exit(main())
