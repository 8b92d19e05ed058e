//! Operands of a selector during evaluation, and the operators (JMS 2.0, 3.8.1.2 and 3.8.1.3).
//!
//! All exact numbers are Java longs and all approximate ones doubles. Unknown is [`Value::Null`]:
//! of a condition it is the third truth value.

use std::cmp::Ordering;

use crate::codec::scan::Scalar;

/// An operand, borrowed from the message or the program.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Value<'v> {
    /// absent or unknown
    Null,
    Bool(bool),
    Int(i64),
    Float(f64),
    Text(&'v str),
    Binary(&'v [u8]),
    /// not comparable: char, list, map, array, described value
    Opaque,
}

impl<'v> From<Scalar<'v>> for Value<'v> {
    #[inline]
    fn from(scalar: Scalar<'v>) -> Self {
        match scalar {
            Scalar::Null => Self::Null,
            Scalar::Bool(value) => Self::Bool(value),
            // A ulong above the range of long becomes a double: inexact, but with the right sign.
            Scalar::Unsigned(value) => i64::try_from(value).map_or(Self::Float(value as f64), Self::Int),
            Scalar::Signed(value) | Scalar::Timestamp(value) => Self::Int(value),
            Scalar::Float(value) => Self::Float(value),
            Scalar::Decimal(bytes) => Self::Float(decimal(bytes)),
            Scalar::Uuid(bytes) | Scalar::Binary(bytes) => Self::Binary(bytes),
            Scalar::Text(text) | Scalar::Symbol(text) => Self::Text(text),
            Scalar::Char(_) | Scalar::Compound => Self::Opaque,
        }
    }
}

impl Value<'_> {
    /// As an operand of AND, OR and NOT: `None` is unknown, and so is a value that is no boolean.
    #[inline]
    pub(super) fn truth(self) -> Option<bool> {
        match self {
            Self::Bool(value) => Some(value),
            _ => None,
        }
    }

    /// A truth value as an operand.
    #[inline]
    pub(super) fn of_truth(truth: Option<bool>) -> Self {
        truth.map_or(Self::Null, Self::Bool)
    }

    /// `-x`; unknown if it is no number.
    pub(super) fn negated(self) -> Self {
        match self {
            Self::Int(value) => Self::Int(value.wrapping_neg()),
            Self::Float(value) => Self::Float(-value),
            _ => Self::Null,
        }
    }

    /// `+x`; unknown if it is no number.
    pub(super) fn number(self) -> Self {
        match self {
            Self::Int(_) | Self::Float(_) => self,
            _ => Self::Null,
        }
    }
}

/// A comparison operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Comparison {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

impl Comparison {
    /// Whether it compares order, not only equality.
    #[inline]
    pub(super) fn orders(self) -> bool {
        !matches!(self, Self::Equal | Self::NotEqual)
    }

    #[inline]
    fn matches(self, order: Option<Ordering>) -> bool {
        match (self, order) {
            (Self::Equal | Self::LessOrEqual | Self::GreaterOrEqual, Some(Ordering::Equal)) => true,
            (Self::NotEqual | Self::Less | Self::LessOrEqual, Some(Ordering::Less)) => true,
            (Self::NotEqual | Self::Greater | Self::GreaterOrEqual, Some(Ordering::Greater)) => true,
            // NaN is not equal to anything.
            (Self::NotEqual, None) => true,
            _ => false,
        }
    }

    /// `left self right`. Unknown if either is; false for values of unlike types. Texts and
    /// binaries have an order only if `lexical`, which JMS forbids and SQL has.
    #[inline]
    pub(super) fn compare(self, left: Value<'_>, right: Value<'_>, lexical: bool) -> Option<bool> {
        let allowed = lexical || !self.orders();
        Some(match (left, right) {
            (Value::Null, _) | (_, Value::Null) => return None,
            (Value::Int(left), Value::Int(right)) => self.matches(Some(left.cmp(&right))),
            (Value::Int(left), Value::Float(right)) => self.matches((left as f64).partial_cmp(&right)),
            (Value::Float(left), Value::Int(right)) => self.matches(left.partial_cmp(&(right as f64))),
            (Value::Float(left), Value::Float(right)) => self.matches(left.partial_cmp(&right)),
            (Value::Text(left), Value::Text(right)) => allowed && self.matches(Some(left.cmp(right))),
            (Value::Binary(left), Value::Binary(right)) => allowed && self.matches(Some(left.cmp(right))),
            (Value::Bool(left), Value::Bool(right)) => !self.orders() && self.matches(Some(left.cmp(&right))),
            _ => false,
        })
    }
}

/// An arithmetic operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Arithmetic {
    Add,
    Subtract,
    Multiply,
    Divide,
    Remainder,
}

impl Arithmetic {
    /// `left self right` as Java does it: long if both are, else double; long overflow wraps.
    /// Unknown for a value that is no number and for a long divided by zero, where Java throws.
    pub(super) fn apply<'v>(self, left: Value<'_>, right: Value<'_>) -> Value<'v> {
        match (left, right) {
            (Value::Int(left), Value::Int(right)) => self.exact(left, right).map_or(Value::Null, Value::Int),
            (Value::Int(left), Value::Float(right)) => Value::Float(self.approximate(left as f64, right)),
            (Value::Float(left), Value::Int(right)) => Value::Float(self.approximate(left, right as f64)),
            (Value::Float(left), Value::Float(right)) => Value::Float(self.approximate(left, right)),
            _ => Value::Null,
        }
    }

    fn exact(self, left: i64, right: i64) -> Option<i64> {
        match self {
            Self::Add => Some(left.wrapping_add(right)),
            Self::Subtract => Some(left.wrapping_sub(right)),
            Self::Multiply => Some(left.wrapping_mul(right)),
            Self::Divide => (right != 0).then(|| left.wrapping_div(right)),
            Self::Remainder => (right != 0).then(|| left.wrapping_rem(right)),
        }
    }

    fn approximate(self, left: f64, right: f64) -> f64 {
        match self {
            Self::Add => left + right,
            Self::Subtract => left - right,
            Self::Multiply => left * right,
            Self::Divide => left / right,
            Self::Remainder => left % right,
        }
    }
}

/// A decimal32, decimal64 or decimal128 (IEEE 754-2008, binary integer encoding) as the nearest
/// double.
#[cold]
fn decimal(bytes: &[u8]) -> f64 {
    let (exponent_bits, bias, digits) = match bytes.len() {
        4 => (8, 101, 7),
        8 => (10, 398, 16),
        _ => (14, 6176, 34),
    };
    let width = bytes.len() * 8;
    let bits = bytes.iter().fold(0_u128, |bits, byte| bits << 8 | u128::from(*byte));
    let field = |low: usize, count: usize| bits >> low & ((1 << count) - 1);
    let (exponent, coefficient) = if field(width - 3, 2) != 0b11 {
        let low = width - 1 - exponent_bits;
        (field(low, exponent_bits), field(0, low))
    } else if field(width - 5, 4) != 0b1111 {
        let low = width - 3 - exponent_bits;
        (field(low, exponent_bits), 0b100 << low | field(0, low))
    } else if field(width - 6, 1) == 0 {
        return if field(width - 1, 1) == 1 { f64::NEG_INFINITY } else { f64::INFINITY };
    } else {
        return f64::NAN;
    };
    // A coefficient with too many digits stands for zero (3.5.2 of the IEEE standard).
    let coefficient = if coefficient < 10_u128.pow(digits) { coefficient } else { 0 };
    let sign = if field(width - 1, 1) == 1 { "-" } else { "" };
    // Parsed from text, because a product of powers of ten would be rounded more than once.
    format!("{sign}{coefficient}e{}", exponent as i64 - bias).parse().unwrap_or(f64::NAN)
}

#[cfg(test)]
mod tests {
    use super::decimal;

    #[test]
    fn decimals_become_the_nearest_double() {
        assert_eq!(decimal(&[0x32, 0x80, 0x00, 0x0f]), 15.0);
        assert_eq!(decimal(&[0xb2, 0x00, 0x00, 0x0f]), -1.5);
        // 9,999,999 needs the long form: 0b11, exponent 101, then 0b100 before the rest of the
        // coefficient.
        assert_eq!(decimal(&[0x6c, 0xb8, 0x96, 0x7f]), 9_999_999.0);
        assert_eq!(decimal(&[0x78, 0, 0, 0]), f64::INFINITY);
        assert_eq!(decimal(&[0xf8, 0, 0, 0]), f64::NEG_INFINITY);
        assert!(decimal(&[0x7c, 0, 0, 0]).is_nan());
        assert_eq!(decimal(&[0x31, 0xc0, 0, 0, 0, 0, 0, 7]), 7.0);
        let mut long = [0; 16];
        long[..2].copy_from_slice(&[0x30, 0x3e]);
        long[15] = 25;
        assert_eq!(decimal(&long), 2.5);
        assert_eq!(decimal(&[0x6c, 0xbf, 0xff, 0xff]), 0.0, "more than seven digits");
    }
}
