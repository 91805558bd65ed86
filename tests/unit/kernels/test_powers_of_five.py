from fractions import Fraction

from headrace.kernels.compiling import SOURCES
from headrace.kernels.powers_of_five import LEAST, MOST, header, leading_bits


def test_the_committed_table_is_the_generated_one() -> None:
    assert (SOURCES / "text" / "powers_of_five.h").read_text() == header()


def test_bits_are_those_of_the_power_rounded_down() -> None:
    for exponent in range(LEAST, MOST + 1):
        bits, power = leading_bits(exponent), Fraction(5) ** exponent
        assert 1 << 127 <= bits < 1 << 128
        shift = 0
        while power >= 1 << 128:
            power, shift = power / 2**64, shift + 64
        while power < 1 << 64:
            power *= 2**64
        while power < 1 << 127:
            power *= 2
        while power >= 1 << 128:
            power /= 2
        assert bits <= power < bits + 1
