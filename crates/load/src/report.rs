//! Writes results as JSON without a library, because they are few and flat.

use std::fmt::Write;

/// A JSON object under construction.
pub(super) struct Json {
    text: String,
}

impl Json {
    pub(super) fn new() -> Self {
        Self { text: "{".to_owned() }
    }

    fn name(&mut self, name: &str) {
        if self.text.len() > 1 {
            self.text.push_str(", ");
        }
        quote(&mut self.text, name);
        self.text.push_str(": ");
    }

    pub(super) fn text(&mut self, name: &str, value: &str) -> &mut Self {
        self.name(name);
        quote(&mut self.text, value);
        self
    }

    pub(super) fn flag(&mut self, name: &str, value: bool) -> &mut Self {
        self.name(name);
        self.text.push_str(if value { "true" } else { "false" });
        self
    }

    pub(super) fn count(&mut self, name: &str, value: impl Into<i128>) -> &mut Self {
        self.name(name);
        let _ = write!(self.text, "{}", value.into());
        self
    }

    /// A number with three decimals; null if it is not finite.
    pub(super) fn decimal(&mut self, name: &str, value: f64) -> &mut Self {
        self.name(name);
        if value.is_finite() {
            let _ = write!(self.text, "{value:.3}");
        } else {
            self.text.push_str("null");
        }
        self
    }

    pub(super) fn object(&mut self, name: &str, value: Json) -> &mut Self {
        self.name(name);
        self.text.push_str(&value.finish());
        self
    }

    pub(super) fn finish(mut self) -> String {
        self.text.push('}');
        self.text
    }
}

fn quote(out: &mut String, text: &str) {
    out.push('"');
    for character in text.chars() {
        match character {
            '"' | '\\' => {
                out.push('\\');
                out.push(character);
            }
            '\u{0}'..='\u{1f}' => {
                let _ = write!(out, "\\u{:04x}", character as u32);
            }
            _ => out.push(character),
        }
    }
    out.push('"');
}

#[cfg(test)]
mod tests {
    use super::Json;

    #[test]
    fn every_field_type_is_written_as_json() {
        let mut inner = Json::new();
        inner.decimal("p50", 1.5).decimal("none", f64::NAN);
        let mut json = Json::new();
        json.text("a\"\\", "b\n\u{1}é").flag("c", true).count("d", -3).object("e", inner);
        let wanted =
            "{\"a\\\"\\\\\": \"b\\u000a\\u0001é\", \"c\": true, \"d\": -3, \"e\": {\"p50\": 1.500, \"none\": null}}";
        assert_eq!(json.finish(), wanted);
        assert_eq!(Json::new().finish(), "{}");
    }
}
