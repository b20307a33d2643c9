"""The codecs of record batches: Kafka's framing, other people's data, and bytes that mean harm."""

from __future__ import annotations

import gzip
import random
import struct
import subprocess
import sys
import warnings
import zlib
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import aiokafka.codec
import cramjam
import lz4.frame
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.errors import DecodeError
from ottla.wire.compression import Compression, check_level, compress, decompress
from ottla.wire.primitives import uvarint
from tests.facts import third_party_vectors

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

with warnings.catch_warnings():  # kafka-python reads its schemas in a way that Python has deprecated
    warnings.simplefilter("ignore", DeprecationWarning)
    import kafka.codec

CODECS = (Compression.GZIP, Compression.SNAPPY, Compression.LZ4, Compression.ZSTD)
LEVELS = {
    Compression.NONE: [None],
    Compression.GZIP: [None, -1, *range(1, 10)],
    Compression.SNAPPY: [None],
    Compression.LZ4: [None, *range(1, 18)],
    Compression.ZSTD: [None, -131072, -7, *range(23)],
}
XERIAL_HEADER = b"\x82SNAPPY\0" + struct.pack(">ii", 1, 1)
LZ4_HEADER = bytes.fromhex("04224d18604082")
PLENTY = 1 << 30

SENTENCE = b'{"order": 4711, "customer": "Ottla", "city": "Prague", "amount": 12.5}\n'
every_codec = pytest.mark.parametrize("codec", CODECS, ids=lambda codec: codec.name.lower())


def text(length: int) -> bytes:
    """Like records: repetitive, but not only that."""
    numbered = b"".join(SENTENCE.replace(b"4711", b"%d" % number) for number in range(length // 60 + 1))
    return numbered[:length]


def packed(codec: int, data: bytes, level: int | None = None) -> bytes:
    return bytes(compress(codec, data, level))


def unpacked(codec: int, data: bytes, limit: int = PLENTY) -> bytes:
    return bytes(decompress(codec, data, limit))


# What Kafka writes.


def java_lz4_frames() -> Iterator[tuple[bytes, int, bytes]]:
    payloads = {
        "empty": b"",
        "one": b"\1",
        "hello": b"hello hello hello hello",
        "ones": b"\1" * 1000,
        "sevens": bytes(i % 7 for i in range(70_000)),
    }
    for line in Path(__file__).with_name("kafka_lz4_frames.txt").read_text().splitlines():
        if not line.startswith("#"):
            name, magic, frame = line.split()
            yield payloads[name], int(magic), bytes.fromhex(frame)


def test_lz4_frames_of_the_java_client_are_read_for_every_message_magic() -> None:
    """Among them those of magic 0, whose header checksum is wrong (KAFKA-3160)."""
    magics = []
    for payload, magic, frame in java_lz4_frames():
        assert unpacked(Compression.LZ4, frame, len(payload)) == payload
        magics.append(magic)
    assert (magics.count(0), magics.count(1), magics.count(2)) == (5, 3, 5)


def test_lz4_frames_begin_as_the_java_client_begins_them() -> None:
    """Header and the sizes of the blocks; the bytes within may differ from library to library."""
    for payload, magic, frame in java_lz4_frames():
        if magic == 2:
            ours = packed(Compression.LZ4, payload)
            assert ours[:7] == frame[:7] == LZ4_HEADER
            assert len(list(lz4_blocks(ours))) == len(list(lz4_blocks(frame)))


def lz4_blocks(frame: bytes) -> Iterator[bytes]:
    position = len(LZ4_HEADER)
    while (length := int.from_bytes(frame[position : position + 4], "little") & 0x7FFFFFFF) != 0:
        yield frame[position + 4 : position + 4 + length]
        position += 4 + length
    assert frame[position:] == bytes(4)


@pytest.mark.parametrize("level", LEVELS[Compression.LZ4])
def test_lz4_blocks_do_not_refer_to_each_other(level: int | None) -> None:
    """The Java client refuses them otherwise; each must decompress by itself."""
    data = text(200_000)
    frame = packed(Compression.LZ4, data, level)
    parts = [LZ4_HEADER + struct.pack("<I", len(block)) + block + bytes(4) for block in lz4_blocks(frame)]
    assert [unpacked(Compression.LZ4, part) for part in parts] == [
        data[start : start + 65536] for start in range(0, len(data), 65536)
    ]


def test_the_default_level_of_lz4_is_the_fast_compressor_and_all_others_are_thorough() -> None:
    data = text(60_000)
    assert packed(Compression.LZ4, data) == packed(Compression.LZ4, data, 9)
    fast = len(packed(Compression.LZ4, data))
    assert all(len(packed(Compression.LZ4, data, level)) < fast for level in range(1, 18) if level != 9)


def test_snappy_is_framed_in_blocks_of_32_kib() -> None:
    data = text(70_000)
    framed = packed(Compression.SNAPPY, data)
    assert framed.startswith(XERIAL_HEADER)
    position = len(XERIAL_HEADER)
    blocks = []
    while position < len(framed):
        (length,) = struct.unpack_from(">i", framed, position)
        blocks.append(bytes(cramjam.snappy.decompress_raw(framed[position + 4 : position + 4 + length])))
        position += 4 + length
    assert blocks == [data[:32768], data[32768:65536], data[65536:]]
    assert packed(Compression.SNAPPY, b"") == XERIAL_HEADER


def test_snappy_frames_of_other_projects_are_read() -> None:
    for vector in third_party_vectors("snappy-xerial"):
        expected = b"".join(
            part.split("*")[0].encode() * int(part.split("*")[1])
            for part in vector["input"]["payload"].split(" + ")
        )
        assert unpacked(Compression.SNAPPY, bytes.fromhex(vector["expected"]["hex"])) == expected, vector[
            "id"
        ]


def test_gzip_and_zstd_are_plain_streams() -> None:
    data = text(5000)
    assert gzip.decompress(packed(Compression.GZIP, data)) == data
    assert zstd.decompress(packed(Compression.ZSTD, data)) == data


# There and back.


@every_codec
def test_every_level_round_trips(codec: Compression) -> None:
    for level in LEVELS[codec]:
        for data in (b"", b"x", text(1000), text(150_000), random.Random(1).randbytes(100_000)):
            assert unpacked(codec, packed(codec, data, level), len(data)) == data


@given(
    codec=st.sampled_from(Compression),
    data=st.one_of(
        st.binary(max_size=2000),
        st.builds(lambda piece, n: piece * n, st.binary(max_size=9), st.integers(0, 20_000)),
    ),
    level=st.data(),
)
def test_anything_round_trips(codec: Compression, data: bytes, level: st.DataObject) -> None:
    chosen = level.draw(st.sampled_from(LEVELS[codec]))
    assert unpacked(codec, packed(codec, data, chosen), len(data)) == data


@every_codec
@pytest.mark.parametrize("kind", [bytes, bytearray, lambda data: memoryview(b"??" + data)[2:]])
def test_any_buffer_will_do(codec: Compression, kind: Callable[[bytes], bytes]) -> None:
    data = text(40_000)
    assert decompress(codec, kind(packed(codec, data)), PLENTY) == data
    assert unpacked(codec, bytes(compress(codec, kind(data)))) == data


def test_without_a_codec_the_data_are_handed_through() -> None:
    data = bytearray(b"records")
    assert compress(Compression.NONE, data) is data
    assert decompress(Compression.NONE, data, 7) is data
    with pytest.raises(DecodeError, match="limit of 6"):
        decompress(Compression.NONE, data, 6)


@every_codec
def test_threads_do_not_get_into_each_others_way(codec: Compression) -> None:
    batches = [text(1000 + 37 * number) + bytes([number]) for number in range(200)]
    with ThreadPoolExecutor(8) as threads:
        small = list(threads.map(lambda data: packed(codec, data), batches))
        assert list(threads.map(lambda data: unpacked(codec, data), small)) == batches


# Other people's code and other people's choices.

PEERS = {
    "aiokafka-gzip": (Compression.GZIP, aiokafka.codec.gzip_encode, aiokafka.codec.gzip_decode),
    "aiokafka-snappy": (Compression.SNAPPY, aiokafka.codec.snappy_encode, aiokafka.codec.snappy_decode),
    "aiokafka-lz4": (Compression.LZ4, aiokafka.codec.lz4_encode, aiokafka.codec.lz4_decode),
    "aiokafka-zstd": (Compression.ZSTD, aiokafka.codec.zstd_encode, aiokafka.codec.zstd_decode),
    "kafka-python-gzip": (Compression.GZIP, kafka.codec.gzip_encode, kafka.codec.gzip_decode),
    "kafka-python-lz4": (Compression.LZ4, kafka.codec.lz4_encode, kafka.codec.lz4_decode),
}


@pytest.mark.parametrize("peer", PEERS)
def test_other_clients_read_what_we_write_and_we_what_they_do(peer: str) -> None:
    codec, encode, decode = PEERS[peer]
    for data in (b"x", text(1000), text(100_000), random.Random(2).randbytes(70_000)):
        assert decode(packed(codec, data)) == data
        assert unpacked(codec, bytes(encode(data)), len(data)) == data


def test_snappy_without_framing_is_read() -> None:
    data = text(100_000)
    assert unpacked(Compression.SNAPPY, aiokafka.codec.snappy_encode(data, xerial_compatible=False)) == data
    assert unpacked(Compression.SNAPPY, b"\0") == b""


@pytest.mark.parametrize("codec", [Compression.GZIP, Compression.SNAPPY, Compression.ZSTD])
def test_streams_that_were_joined_are_read_to_the_end(codec: Compression) -> None:
    parts = [text(1000), b"", text(80_000), b"x"]
    joined = b"".join(packed(codec, part) for part in parts)
    assert unpacked(codec, joined, 81_001) == b"".join(parts)
    with pytest.raises(DecodeError, match="limit of 81000"):
        decompress(codec, joined, 81_000)


@pytest.mark.parametrize("linked", [True, False])
@pytest.mark.parametrize("checksums", [True, False])
@pytest.mark.parametrize("size", [True, False])
@pytest.mark.parametrize("block_size", [4, 5, 6, 7])
def test_lz4_frames_of_every_form_are_read(
    linked: bool, checksums: bool, size: bool, block_size: int
) -> None:
    """Linked blocks are what other libraries write by default."""
    for data in (b"", text(300_000), bytes(9_000_000)):
        frame = lz4.frame.compress(
            data,
            block_size=block_size,
            block_linked=linked,
            content_checksum=checksums,
            block_checksum=checksums,
            store_size=size,
        )
        assert unpacked(Compression.LZ4, frame, len(data)) == data


@pytest.mark.parametrize("size", [True, False])
def test_lz4_headers_may_have_the_right_checksum_or_the_old_one_and_no_third(size: bool) -> None:
    data = text(1000)
    frame = lz4.frame.compress(data, block_linked=False, store_size=size)
    checksum_at = 14 if size else 6
    accepted = []
    for byte in range(256):
        try:
            read = unpacked(Compression.LZ4, frame[:checksum_at] + bytes([byte]) + frame[checksum_at + 1 :])
        except DecodeError:
            continue
        assert read == data
        accepted.append(byte)
    assert len(accepted) == 2
    assert frame[checksum_at] in accepted
    assert size or accepted == [0x1A, 0x82]


def test_zstd_frames_without_a_size_and_with_things_to_skip_are_read() -> None:
    """Java's have no size and a window for the most that could come: 128 MiB at the highest level."""
    data = text(50_000)
    for level in (1, 3, 19, 22):
        stream = zstd.ZstdCompressor(level)
        frame = stream.compress(data) + stream.flush()
        assert zstd.get_frame_info(frame).decompressed_size is None
        skipped = b"\x50\x2a\x4d\x18" + struct.pack("<I", 3) + b"abc"
        assert unpacked(Compression.ZSTD, skipped + frame + skipped, len(data)) == data


# Limits.


@every_codec
def test_the_limit_is_exact_and_the_error_names_it(codec: Compression) -> None:
    for length in (1, 1000, 65_536, 200_000):
        small = packed(codec, text(length))
        assert len(unpacked(codec, small, length)) == length
        for limit in (length - 1, length // 2, 0):
            with pytest.raises(DecodeError, match=f"limit of {limit} bytes: .*raise the limit"):
                decompress(codec, small, limit)


@pytest.mark.parametrize("limit", [-1, sys.maxsize])
def test_a_limit_that_is_none_is_refused(limit: int) -> None:
    with pytest.raises(ValueError, match=f"^{limit} is no limit"):
        decompress(Compression.GZIP, packed(Compression.GZIP, b"x"), limit)


def bomb(codec: Compression) -> bytes:
    """What stands for a gigabyte of zeros, made from a part of it that is repeated."""
    if codec == Compression.GZIP:
        member = zlib.compressobj(9, zlib.DEFLATED, 31)
        start = member.compress(bytes(1 << 20)) + member.flush(zlib.Z_FULL_FLUSH)
        return start + (member.compress(bytes(1 << 20)) + member.flush(zlib.Z_FULL_FLUSH)) * 1023
    if codec == Compression.SNAPPY:
        return bytes(cramjam.snappy.compress_raw(bytes(1 << 30)))
    if codec == Compression.LZ4:
        frame = packed(codec, bytes(1 << 16))
        return frame[:7] + frame[7:-4] * (1 << 14) + bytes(4)
    stream = zstd.ZstdCompressor(3)
    return b"".join(stream.compress(bytes(1 << 20)) for _ in range(1 << 10)) + stream.flush()


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="measures memory as Linux shows it")
@every_codec
def test_a_gigabyte_of_zeros_is_refused_with_hardly_any_memory(codec: Compression) -> None:
    """In a process that may have no more than 16 MiB beyond the compressed data, whoever allocates them."""
    program = f"""if True:
        import resource, sys
        from ottla.errors import DecodeError
        from ottla.wire.compression import compress, decompress
        decompress({codec:d}, compress({codec:d}, b"imports the library"), 100)
        data = sys.stdin.buffer.read()
        pages = int(open("/proc/self/statm").read().split()[0])
        most = pages * resource.getpagesize() + (16 << 20)
        resource.setrlimit(resource.RLIMIT_AS, (most, most))
        try:
            decompress({codec:d}, data, 1 << 20)
        except DecodeError as error:
            sys.exit(str(error))
    """
    finished = subprocess.run(
        [sys.executable, "-c", program], input=bomb(codec), capture_output=True, check=False
    )
    assert finished.returncode == 1
    assert "decompress to more than the limit of 1048576 bytes" in finished.stderr.decode()


def test_a_raw_snappy_block_is_not_believed_beyond_what_it_can_hold() -> None:
    claim = b"\xff\xff\xff\xff\x07"  # 2 GiB - 1
    with pytest.raises(DecodeError, match="25 bytes claim to stand for 2147483647"):
        decompress(Compression.SNAPPY, claim + bytes(20), PLENTY * 4)


def test_the_densest_snappy_block_is_still_believed() -> None:
    """One literal byte, then copies of 64 bytes with an offset of two bytes."""
    copies = 10_000
    block = uvarint(1 + 64 * copies) + b"\0a" + b"\xfe\x01\0" * copies
    assert unpacked(Compression.SNAPPY, block) == b"a" * (1 + 64 * copies)


def test_a_zstd_window_above_that_of_the_highest_level_is_refused() -> None:
    empty_block = b"\1\0\0"
    assert unpacked(Compression.ZSTD, b"\x28\xb5\x2f\xfd\0" + bytes([17 << 3]) + empty_block) == b""
    with pytest.raises(DecodeError, match="too much memory"):
        decompress(Compression.ZSTD, b"\x28\xb5\x2f\xfd\0" + bytes([18 << 3]) + empty_block, PLENTY)


def test_a_flood_of_tiny_zstd_frames_is_refused() -> None:
    with pytest.raises(DecodeError, match="more than 1000 frames"):
        decompress(Compression.ZSTD, packed(Compression.ZSTD, b"x") * 100_000, PLENTY)


# Damage.


@every_codec
def test_data_that_end_early_are_refused_wherever_it_is(codec: Compression) -> None:
    data = text(600)
    whole = packed(codec, data)
    for length in range(len(whole)):
        if codec == Compression.SNAPPY and length == len(XERIAL_HEADER):
            continue  # a stream without blocks: the framing has no end mark
        with pytest.raises(DecodeError):
            decompress(codec, whole[:length], PLENTY)


@every_codec
def test_anything_behind_the_end_is_refused(codec: Compression) -> None:
    whole = packed(codec, text(600))
    for garbage in (b"\0", b"garbage", bytes(100), whole[:9]):
        with pytest.raises(DecodeError):
            decompress(codec, whole + garbage, PLENTY)


def test_a_second_lz4_frame_is_refused() -> None:
    with pytest.raises(DecodeError, match="11 bytes follow the frame"):
        decompress(Compression.LZ4, packed(Compression.LZ4, b"x") + packed(Compression.LZ4, b""), PLENTY)


def samples(codec: Compression) -> list[bytes]:
    """Compressed data of several kinds, to be damaged."""
    made = [packed(codec, data) for data in (b"", b"x", text(700), text(70_000), bytes(5000))]
    data = text(2000)
    if codec == Compression.SNAPPY:
        made += [bytes(cramjam.snappy.compress_raw(data)), made[2] + made[2]]
    elif codec == Compression.LZ4:
        made += [lz4.frame.compress(text(100_000), content_checksum=True, block_checksum=True)]
        made += [frame for _, magic, frame in java_lz4_frames() if magic == 0]
    else:
        made += [made[2] + made[2]]
    if codec == Compression.ZSTD:
        stream = zstd.ZstdCompressor(options={zstd.CompressionParameter.checksum_flag: 1})
        made += [stream.compress(data) + stream.flush()]
    return made


def damage(chance: random.Random, data: bytearray) -> None:
    """One to three changes; most of them near the beginning, where the headers are."""
    for _ in range(chance.randint(1, 3)):
        reach = min(len(data), chance.choice([8, 24, 1 << 20])) or 1
        at = chance.randrange(reach)
        match chance.randrange(5):
            case 0:
                data[at : at + 1] = bytes([chance.randrange(256)])
            case 1:
                data[at : at + 1] = bytes([(data[at] if at < len(data) else 0) ^ 1 << chance.randrange(8)])
            case 2:
                data[at:at] = chance.randbytes(chance.randint(1, 5))
            case 3:
                del data[at : at + chance.randint(1, 9)]
            case 4:
                data[at : at + 4] = chance.choice([b"\xff\xff\xff\xff", b"\x7f\xff\xff\xff", bytes(4)])


@every_codec
def test_damaged_data_are_a_decode_error_or_stay_within_the_limit(codec: Compression) -> None:
    chance = random.Random(f"{codec.name} 1")
    originals = samples(codec)
    refused = 0
    for _ in range(4000):
        data = bytearray(chance.choice(originals))
        damage(chance, data)
        limit = chance.choice([0, 10, 1000, 100_000, 1 << 24])
        try:
            assert len(decompress(codec, data, limit)) <= limit
        except DecodeError:
            refused += 1
    assert 2000 < refused < 4000


@every_codec
@given(data=st.binary(max_size=300))
def test_noise_is_a_decode_error_or_stays_within_the_limit(codec: Compression, data: bytes) -> None:
    for prefix in (b"", packed(codec, b"")[:7], XERIAL_HEADER):
        try:
            assert len(decompress(codec, prefix + data, 1000)) <= 1000
        except DecodeError as error:
            assert str(error)  # noqa: PT017


@pytest.mark.parametrize("codec", [-1, 5, 7, 1000])
def test_an_unknown_codec_is_an_error_of_whoever_named_it(codec: int) -> None:
    with pytest.raises(DecodeError, match=f"codec {codec} is none of Kafka's"):
        decompress(codec, b"", 100)
    with pytest.raises(ValueError, match=f"no compression codec {codec}"):
        compress(codec, b"")


# Levels, and what is imported when.


@pytest.mark.parametrize(
    ("codec", "level", "words"),
    [
        (Compression.GZIP, 0, r"gzip has compression levels 1 to 9 \(and -1, the default\), not 0"),
        (Compression.GZIP, 10, "gzip .* 1 to 9 .* not 10"),
        (Compression.LZ4, 0, "lz4 has compression levels 1 to 17, not 0"),
        (Compression.LZ4, 18, "lz4 .* 1 to 17, not 18"),
        (Compression.ZSTD, 23, "zstd has compression levels -131072 to 22, not 23"),
        (Compression.ZSTD, -131073, "zstd .*, not -131073"),
        (Compression.SNAPPY, 0, "snappy has no compression levels"),
        (Compression.NONE, 1, "none has no compression levels"),
    ],
)
def test_a_level_that_the_codec_lacks_is_refused_with_its_range(
    codec: Compression, level: int, words: str
) -> None:
    with pytest.raises(ValueError, match=f"^{words}"):
        compress(codec, b"x", level)
    with pytest.raises(ValueError, match=f"^{words}"):
        check_level(codec, level)


def test_the_default_levels_are_those_of_kafka() -> None:
    assert [check_level(codec, None) for codec in Compression] == [0, -1, 0, 9, 3]


LIBRARIES = {
    Compression.GZIP: "zlib",
    Compression.SNAPPY: "cramjam",
    Compression.LZ4: "lz4.frame",
    Compression.ZSTD: zstd.__name__,
}


@every_codec
def test_a_library_is_imported_when_its_codec_is_first_used(codec: Compression) -> None:
    program = f"""if True:
        import sys
        from ottla.wire.compression import check_level, compress
        check_level({codec:d}, None)
        before = set(sys.modules)
        compress({codec:d}, b"x")
        print(*before, "/", *set(sys.modules) - before)
    """
    finished = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True)
    before, after = (set(modules.split()) for modules in finished.stdout.split("/"))
    installed = set(LIBRARIES.values()) - {"zlib"}  # which much else in Python imports too
    assert before.isdisjoint(installed)
    assert (before | after) & installed == {LIBRARIES[codec]} & installed
    assert LIBRARIES[codec] in before | after
