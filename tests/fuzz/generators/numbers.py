"""Random numbers as text: `plain` ones as producers write them, `edge` ones that are right, or just not, at limits."""

from __future__ import annotations

import decimal
import math
import struct
from random import Random

from headrace.core.types import Decimal
from headrace.formats.text_values import FLOAT32_LIMIT, INT32_MAX, INT64_MAX

_EXACT = decimal.Context(prec=1100, Emax=decimal.MAX_EMAX, Emin=decimal.MIN_EMIN)
_INTEGER_CORNERS = (
    0,
    1,
    9,
    10,
    1 << 24,
    INT32_MAX,
    1 << 32,
    10**8,
    1 << 53,
    10**16,
    10**18,
    INT64_MAX,
    1 << 64,
    10**19,
)
_ZEROS = ("0", "-0", "0.0", "-0.0", "0e0", "-0e0", "0e5", "0.0e-5", "-0.000", "0e9999", "0e-9999", "0." + "0" * 400)
_EXPONENTS = (
    *("e0", "E0", "e+0", "e-0", "e1", "E2", "e+3", "e00", "e-01", "e22", "e23", "e-22", "e-27", "e-28"),
    "e55",
)
_FAR_EXPONENTS = ("e308", "e309", "e-308", "e-323", "e-324", "e-342", "e-343", "e400", "e-400", "e99999", "e-99999")
_LARGEST, _LEAST_NORMAL = (17976931348623157, 292), (22250738585072014, -324)
_BROKEN = (
    *("", "-", "+1", "01", "-01", "00", "1.", ".5", "-.5", "1e", "1e+", "1.e1", "1.2.3", "0x10", "1_000", "1e1.5"),
    "--1",
    *("NaN", "Infinity", "-Infinity", "nan", "1f", "1 2", "\uff11", "1e5e5", "1-", "1:", "1;", "1/", "9:", "12345678:"),
)


def plain_integer(chance: Random, largest: int) -> str:
    """An integer of few or many digits; magnitudes up to `largest`, which holds both ways."""
    number = int(chance.random() * 10 ** chance.randrange(1, 19)) % (largest + 1)
    return f"-{number}" if chance.random() < 0.2 and number else str(number)


def edge_integer(chance: Random) -> str:
    """An integer near a limit, or one that is written with a point or exponent."""
    number = chance.choice(_INTEGER_CORNERS) + chance.randrange(-2, 3)
    number = -number if chance.random() < 0.4 else number
    roll = chance.random()
    if roll < 0.7:
        return str(number)
    if roll < 0.8:
        return f"{number}.{'0' * chance.randrange(1, 4)}"
    if roll < 0.9:
        return f"{number}{chance.choice(_EXPONENTS)}"
    return chance.choice(_ZEROS) if roll < 0.96 else f"{'-' * chance.randrange(2)}{chance.randrange(10**19, 10**25)}"


def plain_float(chance: Random) -> str:
    """A float of everyday size, with few digits or all of them."""
    roll = chance.random()
    if roll < 0.3:
        return repr(chance.random() * 10 ** chance.randrange(-6, 7))
    if roll < 0.6:
        return repr(round(chance.random() * 20_000 - 10_000, chance.randrange(4)))
    if roll < 0.8:
        return repr(chance.gauss(0, 1) * 10.0 ** chance.randrange(-30, 31))
    return str(chance.randrange(1000)) if roll < 0.9 else repr(float(chance.randrange(1 << 53)))


def edge_float(chance: Random) -> str:
    """A float that is hard to read: between two others, subnormal, at a limit, with many digits."""
    match chance.randrange(10):
        case 0 | 1:
            return repr(_any_float(chance))
        case 2 | 3:
            return _halfway(chance, _any_float(chance))
        case 4:
            # between floats of sizes at which a tie can have 19 digits or less
            return _halfway(chance, float(chance.randrange(1 << 52, 1 << 54)) * 2.0 ** chance.randrange(-8, 12))
        case 5:
            return f"{'-' * chance.randrange(2)}{_digits(chance, 25)}{chance.choice(_EXPONENTS + _FAR_EXPONENTS)}"
        case 6:
            return f"{_digits(chance, 19)}e{chance.randrange(-360, 340)}"
        case 7:
            return f"{'-' * chance.randrange(2)}{_digits(chance, 3)}.{'0' * chance.randrange(30)}{_digits(chance, 22)}"
        case 8:
            return _near_float32_limit(chance) if chance.random() < 0.5 else _near_float64_limit(chance)
        case _:
            return chance.choice(_ZEROS) if chance.random() < 0.5 else edge_integer(chance)


def broken_number(chance: Random) -> str:
    """Text that looks like a number and is none."""
    return chance.choice(_BROKEN)


def plain_decimal(chance: Random, dtype: Decimal) -> str:
    """A literal without exponent that the type holds."""
    whole = chance.randrange(dtype.precision - dtype.scale + 1)
    before = str(chance.randrange(1, 10)) + _digits(chance, whole - 1) if whole else "0"
    after = chance.randrange(dtype.scale + 1)
    text = f"{before}.{_some_digits(chance, after)}" if after else before
    return f"-{text}" if chance.random() < 0.2 else text


def edge_decimal(chance: Random, dtype: Decimal) -> str:
    """A literal at the limits of the type, behind them, or in an unusual form."""
    roll = chance.randrange(8)
    if roll == 0:
        return edge_float(chance)
    if roll == 1:
        return edge_integer(chance)
    if roll == 2:
        return chance.choice(_ZEROS)
    largest = 10**dtype.precision
    limits = (largest - 1, largest, largest + 1, largest * 10)
    # 39 digits are more than some 128 bits
    unscaled = chance.choice((*limits, chance.randrange(largest), chance.randrange(10**38, 10**39)))
    text = f"{decimal.Decimal(unscaled).scaleb(-dtype.scale, _EXACT):f}"
    if roll == 3:
        text = text.rstrip("0").rstrip(".") or "0"
    elif roll == 4 and "." in text:
        text += chance.choice(("0", "00", "1", "0" * 40))
    elif roll == 5:
        text += chance.choice(_EXPONENTS)
    elif roll == 6:
        shift = chance.randrange(-40, 41)
        text = f"{decimal.Decimal(unscaled).scaleb(shift - dtype.scale, _EXACT):f}e{-shift}"
    return f"-{text}" if chance.random() < 0.3 else text


def _any_float(chance: Random) -> float:
    """Any finite float: all exponents alike, few bits or all; every tenth subnormal."""
    bits = chance.getrandbits(64)
    if chance.random() < 0.1:
        bits &= ~(0x7FF << 52)
    if chance.random() < 0.2:
        bits &= ~((1 << 40) - 1)
    value: float = struct.unpack("<d", struct.pack("<Q", bits))[0]
    return value if math.isfinite(value) else 5e-324


def _halfway(chance: Random, value: float) -> str:
    """Text in the middle of two floats, or next to it; all digits, or so many that a reader may keep."""
    following = math.nextafter(value, math.inf)
    if not math.isfinite(following):
        following = value
    middle = _EXACT.divide(_EXACT.add(decimal.Decimal(value), decimal.Decimal(following)), decimal.Decimal(2))
    roll = chance.random()
    if roll < 0.15:
        return str(middle)
    digits = chance.choice((15, 16, 17, 18, 19, 20, 21, 40))
    rounding = chance.choice((decimal.ROUND_DOWN, decimal.ROUND_UP, decimal.ROUND_HALF_EVEN))
    return str(decimal.Context(prec=digits, rounding=rounding).plus(middle))


def _near_float32_limit(chance: Random) -> str:
    value = chance.choice((FLOAT32_LIMIT, 3.4028234663852886e38, 1.401298464324817e-45, 1.1754943508222875e-38))
    for _ in range(chance.randrange(3)):
        value = math.nextafter(value, chance.choice((0.0, math.inf)))
    return f"{'-' * chance.randrange(2)}{value!r}"


def _near_float64_limit(chance: Random) -> str:
    """A number around the largest float, or the least normal one; 17 digits or more."""
    digits, exponent = chance.choice((_LARGEST, _LEAST_NORMAL))
    more = chance.randrange(4)
    return f"{(digits + chance.randrange(-1, 3)) * 10**more + chance.randrange(10**more)}e{exponent - more}"


def _digits(chance: Random, most: int) -> str:
    """Up to so many digits, at least one, without zeros in front; none where `most` is not positive."""
    return str(chance.randrange(10 ** chance.randint(1, most))) if most > 0 else ""


def _some_digits(chance: Random, count: int) -> str:
    return str(chance.randrange(10**count)).rjust(count, "0")
