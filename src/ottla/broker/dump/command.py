"""The command line of `dump`: its options, the order in which paths are dumped, and the exit code.

0: all was read and nothing is wrong with it. 1: something is damaged, and named. 2: a path cannot be read or is of no
kind that is known, or the command is mistaken.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Final

from ottla.broker.dump.decoders import (
    RecordDecoder,
    cluster_metadata_decoder,
    offsets_decoder,
    share_group_state_decoder,
    transaction_log_decoder,
)
from ottla.broker.dump.directories import (
    files_in,
    is_log,
    log_directories_in,
    log_directory_lines,
    log_lines,
    logs_in,
)
from ottla.broker.dump.files import FileOptions, dump_file, exists
from ottla.broker.dump.indexes import IndexOptions
from ottla.broker.dump.lines import DumpError, DumpLine
from ottla.broker.dump.segments import DEFAULT_MAX_MESSAGE_SIZE, RecordOptions

_DAMAGED: Final = 1
_MISTAKEN: Final = 2
_EXAMPLES: Final = """examples:
  {program} /var/lib/kafka                                   a line for each log
  {program} /var/lib/kafka/orders-0                          a log: segments, epochs, producers
  {program} /var/lib/kafka/orders-0 --print-data-log         every file of it, with all records
  {program} 00000000000000000000.log                         its batches
  {program} /var/lib/kafka/__consumer_offsets-3 --print-data-log --json
"""
_DECODERS: Final[dict[str, tuple[RecordDecoder, str]]] = {
    "offsets-decoder": (offsets_decoder, "__consumer_offsets"),
    "transaction-log-decoder": (transaction_log_decoder, "__transaction_state"),
    "share-group-state-decoder": (share_group_state_decoder, "__share_group_state"),
    "cluster-metadata-decoder": (cluster_metadata_decoder, "__cluster_metadata"),
}

Write = Callable[[str], None]


def run(arguments: Sequence[str], program: str, write: Write, complain: Write) -> int:
    """Dumps what the command line names; lines go to `write`, and what cannot be read to `complain`."""
    parser = _parser(program)
    options = parser.parse_args(arguments)
    paths = [*options.paths, *(Path(path) for path in (options.files or "").split(",") if path)]
    if not paths:
        parser.error("at least one file or directory is needed")
    chosen = next((_DECODERS[name][0] for name in _DECODERS if _is_set(options, name)), None)
    contents = options.print_data_log or chosen is not None
    dump = _Dump(
        FileOptions(
            RecordOptions(
                records=contents or options.deep_iteration,
                contents=contents,
                metadata=not options.skip_record_metadata,
                max_bytes=options.max_bytes,
                max_message_size=options.max_message_size,
            ),
            IndexOptions(options.index_sanity_check, options.verify_index_only),
            chosen,
        ),
        write,
        complain,
        program,
        as_json=options.json,
    )
    indexes_only = options.index_sanity_check or options.verify_index_only
    of_files = contents or options.deep_iteration or options.max_bytes is not None or indexes_only
    for path in paths:
        dump.path(path, of_files=of_files, indexes_only=indexes_only)
    return dump.exit_code


class _Dump:
    """One run: it writes line after line and remembers the worst that it has met."""

    def __init__(
        self, options: FileOptions, write: Write, complain: Write, program: str, *, as_json: bool
    ) -> None:
        self._options = options
        self._write = write
        self._complain = complain
        self._program = program
        self._as_json = as_json
        self.exit_code = 0

    def path(self, path: Path, *, of_files: bool, indexes_only: bool, in_log: bool = False) -> None:
        """A file, or a directory: a summary, or with `of_files` every file in it."""
        try:
            if not exists(path) or not path.is_dir():
                self._dump(path, dump_file(path, self._options))
                return
            logs, files, has_segments = [] if in_log else logs_in(path), files_in(path), is_log(path)
            of_nodes = [] if files or in_log else log_directories_in(path)
            if not logs and not files and not of_nodes:
                raise DumpError("neither a log nor a directory with logs")
        except DumpError as error:
            self._refuse(path, error)
            return
        if of_nodes:
            for directory in of_nodes:
                self.path(directory, of_files=of_files, indexes_only=indexes_only)
        elif of_files:
            for file in files:
                if not indexes_only or file.suffix in (".index", ".timeindex"):
                    self._dump(file, dump_file(file, self._options))
            for log in logs:
                # Not what a log's directory has for logs: a link in it may lead back here.
                self.path(log, of_files=True, indexes_only=indexes_only, in_log=True)
        elif has_segments:
            self._dump(path, log_lines(path, in_detail=True))
        else:
            self._dump(path, log_directory_lines(path, logs))
            for log in logs:
                self._dump(log, log_lines(log, in_detail=False), announce=False)

    def _dump(self, path: Path, lines: Iterator[DumpLine], *, announce: bool = True) -> None:
        if announce and not self._as_json:
            self._write(f"Dumping {path}")
        try:
            for line in lines:
                if line.is_problem:
                    self.exit_code = max(self.exit_code, _DAMAGED)
                self._write(line.as_json(str(path)) if self._as_json else line.text)
        except DumpError as error:
            self._refuse(path, error)

    def _refuse(self, path: Path, error: DumpError) -> None:
        self.exit_code = _MISTAKEN
        self._complain(f"{self._program}: {path}: {error}")


def _is_set(options: argparse.Namespace, name: str) -> bool:
    return bool(getattr(options, name.replace("-", "_")))


def _parser(program: str) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog=program,
        description="What is in the files of a log directory, of Apache Kafka or of Ottla. Files are only read, and "
        "a broker may be running on them.",
        epilog=_EXAMPLES.format(program=program),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("paths", nargs="*", type=Path, metavar="FILE_OR_DIRECTORY", help="what to dump")
    parser.add_argument("--files", metavar="FILE,FILE", help="the same, as Kafka's tool takes it")
    parser.add_argument("--json", action="store_true", help="an object per line, for programs")
    parser.add_argument("--print-data-log", action="store_true", help="records with keys, values and headers")
    parser.add_argument("--deep-iteration", action="store_true", help="records without their contents")
    parser.add_argument(
        "--skip-record-metadata",
        action="store_true",
        help="of records only the contents; skips control records' contents, too",
    )
    parser.add_argument(
        "--max-bytes", type=_size, metavar="BYTES", help="of each .log, only the batches in its first bytes"
    )
    parser.add_argument(
        "--max-message-size",
        type=_size,
        default=DEFAULT_MAX_MESSAGE_SIZE,
        metavar="BYTES",
        help="the largest batch whose records are read into memory (default: %(default)s)",
    )
    parser.add_argument(
        "--index-sanity-check", action="store_true", help="of indexes, only whether they are in order"
    )
    parser.add_argument(
        "--verify-index-only", action="store_true", help="of indexes, only what does not fit their log"
    )
    decoders = parser.add_mutually_exclusive_group()
    for name, (_, topic) in _DECODERS.items():
        decoders.add_argument(
            f"--{name}",
            action="store_true",
            help=f"records are those of {topic}, also in a directory of another name",
        )
    return parser


def _size(text: str) -> int:
    if not text.isdecimal() or len(text) > 12:
        raise argparse.ArgumentTypeError(f"{text!r}: expected a number of bytes, of at most 12 digits")
    return int(text)
