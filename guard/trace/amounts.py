"""What stands around a number in prose: money, units, and words that make another number of it."""

from __future__ import annotations

from typing import Final


def _words(listed: str) -> frozenset[str]:
    return frozenset(listed.split())


# ISO 4217, those in use.
CURRENCIES: Final = _words(
    """
    AED AFN ALL AMD AOA ARS AUD AWG AZN BAM BBD BDT BGN BHD BIF BMD BND BOB BRL BSD BTN BWP BYN BZD
    CAD CDF CHF CLP CNY COP CRC CUP CVE CZK DJF DKK DOP DZD EGP ERN ETB EUR FJD FKP GBP GEL GHS GIP
    GMD GNF GTQ GYD HKD HNL HTG HUF IDR ILS INR IQD IRR ISK JMD JOD JPY KES KGS KHR KMF KPW KRW KWD
    KYD KZT LAK LBP LKR LRD LSL LYD MAD MDL MGA MKD MMK MNT MOP MRU MUR MVR MWK MXN MYR MZN NAD NGN
    NIO NOK NPR NZD OMR PAB PEN PGK PHP PKR PLN PYG QAR RON RSD RUB RWF SAR SBD SCR SDG SEK SGD SHP
    SLE SOS SRD SSP STN SVC SYP SZL THB TJS TMT TND TOP TRY TTD TWD TZS UAH UGX USD UYU UZS VED VES
    VND VUV WST XAF XCD XOF XPF YER ZAR ZMW ZWG
    """
)

# Unicode's signs of currencies, but for the cent's, which makes a hundredth of a number.
_SIGNS: Final = (
    "$\u00a3-\u00a5\u058f\u060b\u07fe\u07ff\u09f2\u09f3\u09fb\u0af1\u0bf9\u0e3f\u17db\u20a0-\u20cf\ua838\ufdfc\ufe69"
    "\uff04\uffe1\uffe5\uffe6\U00011fdd-\U00011fe0\U0001e2ff\U0001ecb0"
)
# A sign, also with the letters of its country, or a short word for one.
MONEY: Final = rf"(?:(?:AU|CA|HK|MX|NT|NZ|US|A|C|R|S)?+(?:\\\$|[{_SIGNS}])|(?:Rs|kr)\b\.?)"

_CENTS: Final = _words(
    """
    cent centimes cents p paisa paise pence pennies penny ¢ ￠
    """
)
_NUMBERS: Final = _words(
    """
    zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen
    sixteen seventeen eighteen nineteen twenty thirty forty fifty sixty seventy eighty ninety
    """
)
# Whatever multiplies or divides what stands before it, in full and shortened.
_SCALES: Final = _words(
    """
    hundred hundreds thousand thousands million millions billion billions trillion trillions
    quadrillion quadrillions quintillion quintillions lakh lakhs lac lacs crore crores dozen dozens
    gross score k m mm mn mio mil mill mln b bn bln tn trn tausend hundert million millionen
    milliarde milliarden mrd mille milliers milliard milliards cientos millones miljoen miljard tys
    mln тыс млн half halves third thirds quarter quarters fifth fifths sixth sixths seventh sevenths
    eighth eighths ninth ninths tenth tenths twelfth twelfths hundredth hundredths thousandth
    thousandths millionth millionths billionth billionths percentage permille promille bp bps basis
    pp ppm squared cubed factorial
    """
)
# Whatever says that the number is not the whole of it.
_JOINTS: Final = _words(
    """
    or plus minus divided multiplied added subtracted mod modulo remainder rem x pi approximately
    approx about around roughly nearly almost circa between versus vs instead rounded rounds oder ou
    bis
    """
)
_CHANGES: Final = _NUMBERS | _SCALES | _JOINTS
_SHORT: Final = frozenset("KMBTG")

# Words that begin another clause.
CONJUNCTIONS: Final = _words(
    """
    afterwards also and as because but finally first gives giving hence if later next now since so
    then therefore thus when where while with
    """
)

# Words that make another quantity of the name after them.
QUALIFIERS: Final = _words("sub grand new old running partial previous other another half twice double not")


def is_cents(word: str) -> bool:
    """Whether a word counts hundredths of a currency."""
    return word.lower() in _CENTS


def changes(word: str) -> bool:
    """Whether a word after a number makes another number of it, or says that it is not the whole of it."""
    return word in _SHORT or word.lower() in _CHANGES
