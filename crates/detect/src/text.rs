//! Formats numbers for readers.

/// A number with at most six significant digits, like `%g` in C.
pub(crate) fn general(value: f64) -> String {
    const DIGITS: i32 = 6;
    let scientific = format!("{value:.5e}");
    let Some((mantissa, exponent)) = scientific.split_once('e') else { return scientific };
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if (-4..DIGITS).contains(&exponent) {
        return trimmed(&format!("{value:.*}", usize::try_from(DIGITS - 1 - exponent).unwrap_or(0)));
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{}e{sign}{:02}", trimmed(mantissa), exponent.abs())
}

fn trimmed(number: &str) -> String {
    let kept = if number.contains('.') { number.trim_end_matches('0').trim_end_matches('.') } else { number };
    kept.to_owned()
}

/// A time in seconds.
pub(crate) fn seconds(us: i64) -> String {
    #[expect(clippy::cast_precision_loss, reason = "six digits are shown")]
    general(us as f64 / 1e6)
}

#[cfg(test)]
mod tests {
    use super::general;

    #[test]
    fn numbers_have_six_digits() {
        let cases = [
            (0.0, "0"),
            (-0.5, "-0.5"),
            (31.0, "31"),
            (30.05, "30.05"),
            (1.0 / 3.0, "0.333333"),
            (999_999.5, "1e+06"),
            (123_456.0, "123456"),
            (1_234_567.0, "1.23457e+06"),
            (0.000_1, "0.0001"),
            (0.000_012_5, "1.25e-05"),
            (1e300, "1e+300"),
        ];
        for (value, text) in cases {
            assert_eq!(general(value), text);
        }
    }
}
