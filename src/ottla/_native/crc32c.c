/* CRC32C: the processor's own instruction where there is one, eight tables where there is none.
 *
 * Inside this file a "register" is the checksum without its final inversion. It is a polynomial over GF(2) with
 * the coefficients reversed, as the instruction has it: bit 31 is x^0, bit 0 is x^31, modulo the Castagnoli
 * polynomial P. Feeding n zero bits to a register multiplies it by x^n modulo P; everything below follows from
 * that.
 */
#include "crc32c.h"

#include <string.h>

typedef uint32_t (*crc32c_function)(uint32_t crc, const uint8_t *next, size_t length);

/* P without x^32, reversed. */
#define CASTAGNOLI 0x82f63b78u

static uint64_t load_little_endian(const uint8_t *from)
{
    uint64_t word;
    memcpy(&word, from, sizeof word);
#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    word = __builtin_bswap64(word);
#endif
    return word;
}

/* Software: slicing by eight. slice[k][b] is the register after byte b and then k zero bytes, so that the
 * eight bytes of a word are looked up at once and independently of one another. */

static uint32_t slice[8][256];

static void build_slices(void)
{
    for (uint32_t byte = 0; byte < 256; byte++) {
        uint32_t crc = byte;
        for (int bit = 0; bit < 8; bit++)
            crc = (crc >> 1) ^ (crc & 1 ? CASTAGNOLI : 0);
        slice[0][byte] = crc;
    }
    for (int zeros = 1; zeros < 8; zeros++)
        for (int byte = 0; byte < 256; byte++) {
            uint32_t before = slice[zeros - 1][byte];
            slice[zeros][byte] = (before >> 8) ^ slice[0][before & 0xff];
        }
}

static uint32_t update_software(uint32_t crc, const uint8_t *next, size_t length)
{
    for (; length >= 8; next += 8, length -= 8) {
        uint64_t word = load_little_endian(next) ^ crc;
        crc = slice[7][word & 0xff] ^ slice[6][(word >> 8) & 0xff] ^ slice[5][(word >> 16) & 0xff] ^
              slice[4][(word >> 24) & 0xff] ^ slice[3][(word >> 32) & 0xff] ^ slice[2][(word >> 40) & 0xff] ^
              slice[1][(word >> 48) & 0xff] ^ slice[0][word >> 56];
    }
    for (; length > 0; next++, length--)
        crc = (crc >> 8) ^ slice[0][(crc ^ *next) & 0xff];
    return crc;
}

#if defined(__x86_64__) && defined(__GNUC__)

/* x86-64. The instruction takes three cycles but a new one can start in every cycle, so one chain of them would
 * leave two thirds of the speed unused. Hence three streams side by side, each of the same number of words n:
 *
 *     register of the whole = a * x^(2 * 64n) + b * x^64n + c      (a, b, c: registers of the three streams)
 *
 * A carry-less product of two registers, read as a 64-bit word, is their product times x, and feeding a word to
 * the instruction multiplies it by x^32. The factor to multiply by is therefore x^(64n - 33), for which
 * word_shift has one entry per n: the cost of joining is small enough to do it for short inputs too. */

#define HARDWARE "sse4.2"

#include <nmmintrin.h>
#include <wmmintrin.h>

/* Clang has made the instruction a feature of its own, which SSE 4.2 brings unless the build says otherwise. */
#if defined(__clang__) && __clang_major__ >= 14
#define WITH_HARDWARE __attribute__((target("sse4.2,crc32,pclmul")))
#else
#define WITH_HARDWARE __attribute__((target("sse4.2,pclmul")))
#endif

enum {
    STREAMS = 3,
    /* Streams of 4 KiB: no slower than shorter ones in the cache, and nearly twice as fast as those of 1 KiB out
     * of memory, where the processor's prefetching has to find three places anew for each round. */
    MOST_WORDS = 512,
    /* With fewer, one chain is faster than three and their joining. */
    FEWEST_WORDS = 3
};

static uint32_t word_shift[2 * MOST_WORDS + 1];

static int hardware_available(void)
{
    __builtin_cpu_init();
    return __builtin_cpu_supports("sse4.2") && __builtin_cpu_supports("pclmul");
}

static void build_hardware_tables(void)
{
    static const uint8_t zeros[8];
    word_shift[1] = 1; /* x^31 = x^(64 * 1 - 33) */
    for (int words = 2; words <= 2 * MOST_WORDS; words++)
        word_shift[words] = update_software(word_shift[words - 1], zeros, sizeof zeros);
}

/* crc * x^(64 * words), as a word to be fed to the instruction. */
WITH_HARDWARE static uint64_t shifted(uint64_t crc, size_t words)
{
    __m128i factor = _mm_cvtsi32_si128((int)word_shift[words]);
    return (uint64_t)_mm_cvtsi128_si64(_mm_clmulepi64_si128(_mm_cvtsi64_si128((long long)crc), factor, 0));
}

WITH_HARDWARE static uint32_t update_hardware(uint32_t crc, const uint8_t *next, size_t length)
{
    while (length >= STREAMS * 8 * FEWEST_WORDS) {
        size_t words = length / (STREAMS * 8) < MOST_WORDS ? length / (STREAMS * 8) : MOST_WORDS;
        size_t stride = 8 * words;
        uint64_t a = crc, b = 0, c = 0;
        for (const uint8_t *end = next + stride; next < end; next += 8) {
            a = _mm_crc32_u64(a, load_little_endian(next));
            b = _mm_crc32_u64(b, load_little_endian(next + stride));
            c = _mm_crc32_u64(c, load_little_endian(next + 2 * stride));
        }
        crc = (uint32_t)(c ^ _mm_crc32_u64(0, shifted(a, 2 * words) ^ shifted(b, words)));
        next += 2 * stride;
        length -= STREAMS * stride;
    }
    for (; length >= 8; next += 8, length -= 8)
        crc = (uint32_t)_mm_crc32_u64(crc, load_little_endian(next));
    for (; length > 0; next++, length--)
        crc = _mm_crc32_u8(crc, *next);
    return crc;
}

#elif defined(__aarch64__) && defined(__GNUC__) && (defined(__linux__) || defined(__APPLE__))

/* ARMv8. Inline assembly rather than intrinsics: the extension has to be enabled for these instructions alone,
 * and compilers differ in how the intrinsics allow that. One chain only, until more have been measured. */

#define HARDWARE "armv8"

#if defined(__linux__)
#include <asm/hwcap.h>
#include <sys/auxv.h>
#endif

static int hardware_available(void)
{
#if defined(__linux__)
    return (getauxval(AT_HWCAP) & HWCAP_CRC32) != 0;
#else
    return 1; /* every 64-bit Apple processor that macOS runs on */
#endif
}

static void build_hardware_tables(void)
{
}

static uint32_t update_hardware(uint32_t crc, const uint8_t *next, size_t length)
{
    for (; length >= 8; next += 8, length -= 8)
        __asm__(".arch_extension crc\n\tcrc32cx %w0, %w0, %x1" : "+r"(crc) : "r"(load_little_endian(next)));
    for (; length > 0; next++, length--)
        __asm__(".arch_extension crc\n\tcrc32cb %w0, %w0, %w1" : "+r"(crc) : "r"((uint32_t)*next));
    return crc;
}

#endif

static crc32c_function update = update_software;
static const char *implementation = "software";

void crc32c_setup(void)
{
    build_slices();
#ifdef HARDWARE
    if (hardware_available()) {
        build_hardware_tables();
        update = update_hardware;
        implementation = HARDWARE;
    }
#endif
}

uint32_t crc32c(uint32_t value, const void *data, size_t length)
{
    return ~update(~value, data, length);
}

uint32_t crc32c_software(uint32_t value, const void *data, size_t length)
{
    return ~update_software(~value, data, length);
}

const char *crc32c_implementation(void)
{
    return implementation;
}
