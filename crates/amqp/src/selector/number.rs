//! Numeric literals: those of Java for JMS selectors (JMS 2.0, 3.8.1.1), and for SQL filters the
//! same without octal, with binary constants in place of hexadecimal numbers.

use super::Dialect;
use super::error::{Problem, quote};
use super::token::{Token, is_part};

/// The literal at the front of `text`, which begins with a digit, or a point and a digit; and its
/// length.
pub(super) fn number<'t>(text: &'t str, at: usize, dialect: Dialect) -> Result<(Token<'t>, usize), Problem> {
    let length = length(text);
    let literal = &text[..length];
    if text[length..].starts_with(is_part) {
        return Err(Problem::new(
            at,
            format!("the number '{}' runs into letters", quote(literal)),
            "put a space after it, or in front of a name that begins with a digit quote the value",
        ));
    }
    let token = parse(literal, dialect).map_err(|problem| {
        let (what, remedy) = match problem {
            Fault::Range => ("is beyond the range of a long or double", "write a smaller number"),
            Fault::Form => ("is not a number", "write it like 42, 0x2a, 052, 4.2, .42 or 4.2E1"),
            Fault::OddBinary => ("is not a binary constant", "write two hexadecimal digits for each byte"),
        };
        Problem::new(at, format!("'{}' {what}", quote(literal)), remedy)
    })?;
    Ok((token, length))
}

enum Fault {
    Range,
    Form,
    OddBinary,
}

/// The length of the literal: letters, digits, underscores, points, and a sign right after an
/// exponent letter.
fn length(text: &str) -> usize {
    let bytes = text.as_bytes();
    let hexadecimal = has_prefix(text, b'x');
    let mut end = 0;
    let mut points = 0;
    while let Some(&byte) = bytes.get(end) {
        let exponent = end > 0 && matches!((hexadecimal, bytes[end - 1] | 0x20), (false, b'e') | (true, b'p'));
        match byte {
            b'+' | b'-' if exponent => {}
            b'.' if points == 0 => points += 1,
            b'_' => {}
            _ if byte.is_ascii_alphanumeric() => {}
            _ => break,
        }
        end += 1;
    }
    end
}

fn has_prefix(literal: &str, letter: u8) -> bool {
    matches!(literal.as_bytes(), [b'0', second, ..] if second | 0x20 == letter)
}

fn parse<'t>(literal: &str, dialect: Dialect) -> Result<Token<'t>, Fault> {
    if has_prefix(literal, b'x') {
        return match dialect {
            Dialect::Jms if literal.contains(['.', 'p', 'P']) => hexadecimal_float(&literal[2..]).map(Token::Float),
            Dialect::Jms => bits(&literal[2..], 16),
            Dialect::AmqpSql => binary(&literal[2..]),
        };
    }
    if has_prefix(literal, b'b') {
        return bits(&literal[2..], 2);
    }
    if literal.contains(['.', 'e', 'E', 'f', 'F', 'd', 'D']) {
        return float(literal).map(Token::Float);
    }
    if dialect == Dialect::Jms && literal.len() > 1 && literal.starts_with('0') && !matches!(literal, "0l" | "0L") {
        return bits(&literal[1..], 8);
    }
    let digits = digits(without_long(literal), 10)?;
    match digits.parse::<u64>() {
        Ok(magnitude) if magnitude <= i64::MAX as u64 => Ok(Token::Int(magnitude as i64)),
        Ok(magnitude) if magnitude == i64::MIN.unsigned_abs() => Ok(Token::IntMin),
        _ => Err(Fault::Range),
    }
}

fn without_long(literal: &str) -> &str {
    literal.strip_suffix(['l', 'L']).unwrap_or(literal)
}

/// Digits without their underscores, which stand between digits only.
fn digits(text: &str, radix: u32) -> Result<String, Fault> {
    let good = |text: &str| text.chars().all(|letter| letter == '_' || letter.is_digit(radix));
    if text.is_empty() || text.starts_with('_') || text.ends_with('_') || !good(text) {
        return Err(Fault::Form);
    }
    Ok(text.replace('_', ""))
}

/// A literal that sets the 64 bits of a long. It may be negative: 0xffffffffffffffff is -1.
fn bits<'t>(text: &str, radix: u32) -> Result<Token<'t>, Fault> {
    let text = without_long(text);
    let text = if radix == 8 { text.trim_start_matches('_') } else { text };
    let digits = digits(text, radix)?;
    u64::from_str_radix(&digits, radix).map(|bits| Token::Int(bits as i64)).map_err(|_| Fault::Range)
}

fn binary<'t>(text: &str) -> Result<Token<'t>, Fault> {
    let digits = text.as_bytes();
    if digits.is_empty() || !digits.len().is_multiple_of(2) {
        return Err(Fault::OddBinary);
    }
    let value = |digit: u8| char::from(digit).to_digit(16).ok_or(Fault::OddBinary);
    let bytes = digits.chunks(2).map(|pair| Ok((value(pair[0])? << 4 | value(pair[1])?) as u8));
    bytes.collect::<Result<_, _>>().map(Token::Binary)
}

/// Decimal floating point. One that ends in `f` has the precision of a Java float.
fn float(literal: &str) -> Result<f64, Fault> {
    let single = literal.ends_with(['f', 'F']);
    let text = literal.strip_suffix(['f', 'F', 'd', 'D']).unwrap_or(literal);
    let (mantissa, exponent) = match text.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, Some(exponent)),
        None => (text, None),
    };
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    if whole.is_empty() && fraction.is_empty() {
        return Err(Fault::Form);
    }
    for part in [whole, fraction] {
        if !part.is_empty() {
            digits(part, 10)?;
        }
    }
    if let Some(exponent) = exponent {
        digits(exponent.strip_prefix(['+', '-']).unwrap_or(exponent), 10)?;
    }
    let text = text.replace('_', "");
    let value = if single { text.parse::<f32>().map(f64::from) } else { text.parse() };
    value.ok().filter(|value: &f64| value.is_finite()).ok_or(Fault::Range)
}

/// Hexadecimal floating point after its 0x: digits with a point, `p` and a power of two.
fn hexadecimal_float(text: &str) -> Result<f64, Fault> {
    let text = text.strip_suffix(['f', 'F', 'd', 'D']).filter(|rest| rest.contains(['p', 'P'])).unwrap_or(text);
    let (mantissa, exponent) = text.split_once(['p', 'P']).ok_or(Fault::Form)?;
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let all = digits(&format!("{whole}{fraction}"), 16)?;
    digits(exponent.strip_prefix(['+', '-']).unwrap_or(exponent), 10)?;
    let exponent: i32 = exponent.replace('_', "").parse().map_err(|_| Fault::Range)?;
    let mantissa = u64::from_str_radix(&all, 16).map_err(|_| Fault::Range)?;
    let places = fraction.replace('_', "").len() as i32;
    let value = mantissa as f64 * 2_f64.powf(f64::from(exponent.saturating_sub(4 * places)));
    if value.is_finite() { Ok(value) } else { Err(Fault::Range) }
}
