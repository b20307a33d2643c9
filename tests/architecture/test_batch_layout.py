"""Positions in a batch's header are written down once; proven on snippets, kept on the tree."""

import pytest

from tests.architecture.batch_layout import second_homes
from tests.architecture.source import Source, real_tree, report


def test_one_module_of_the_tree_knows_where_the_fields_of_a_batch_lie() -> None:
    assert report(second_homes(real_tree())) == ""


@pytest.mark.parametrize(
    ("code", "found"),
    [
        ("import struct\n_HEADER = struct.Struct('>qiibIhiqqqhii')", "'>qiibIhiqqqhii'"),
        ("from struct import Struct\n_WALKED = Struct('>qi11xi')", "'>qi11xi'"),
        ("import struct\nbase, length = struct.unpack_from('>qi', data)", "'>qi'"),
        ("from typing import Final\n_MAGIC_AT: Final = 16", "_MAGIC_AT = 16"),
        ("\n_ATTRIBUTES_AT = 22", "_ATTRIBUTES_AT = 22"),
        ("\nBATCH_OVERHEAD = 61", "BATCH_OVERHEAD = 61"),
        ("\n_OLD_HEADER = 26", "_OLD_HEADER = 26"),
        ("\nmagic = batch[16]", "[16]"),
        ("\ncrc = batch[17:21]", "[17:21]"),
        ("\nrecords = batch[61:]", "[61:]"),
        ("\nbatch[57:61] = b'....'", "[57:61]"),
        ("\ncodec = batch.attributes & 7", "batch.attributes & 7"),
        ("\nattributes |= 0x10", "attributes |= 16"),
    ],
)
def test_a_second_place_is_reported(code: str, found: str) -> None:
    path = "ottla/broker/log/validation.py"
    assert report(second_homes([Source(path, code)])) == (
        f"src/{path}:2: {found} looks like a part of a batch's header: "
        "import its name from ottla.wire.batch_header"
    )


@pytest.mark.parametrize(
    ("path", "code"),
    [
        ("ottla/wire/batch_header.py", "MAGIC_AT = 16\nBATCH_OVERHEAD = 61"),
        ("ottla/broker/log/snapshots.py", "import struct\n_HEADER = struct.Struct('>hIi')\n_COUNT_AT = 6"),
        ("ottla/wire/batches.py", "from ottla.wire.batch_header import MAGIC_AT\nmagic = batch[MAGIC_AT]"),
        ("ottla/wire/primitives.py", "text = base64.urlsafe_b64encode(self)[:22]"),
        ("ottla/broker/log/batch.py", "codec = batch.attributes & CODEC"),
        ("ottla/net/connection.py", "flags = options & 7\nfirst = parts[0]\nrest = text[8:]\nport = 16"),
    ],
)
def test_other_numbers_pass(path: str, code: str) -> None:
    assert report(second_homes([Source(path, code)])) == ""
