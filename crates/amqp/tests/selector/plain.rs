//! A reference selector: a tree, its text, and its value for a decoded message, each in the
//! simplest form.

use enmasse_amqp::types::{Message, MessageId, Value};

#[derive(Clone, Debug)]
pub(crate) enum Expr {
    Bool(bool),
    Long(i64),
    Double(f64),
    Text(String),
    Name(String),
    /// `-` or `+`
    Sign(bool, Box<Expr>),
    /// one of `+-*/`
    Arithmetic(char, Box<Expr>, Box<Expr>),
    /// one of `= <> < <= > >=`
    Compare(&'static str, Box<Expr>, Box<Expr>),
    /// negated, value, low, high
    Between(bool, Box<Expr>, Box<Expr>, Box<Expr>),
    In(bool, String, Vec<String>),
    Like(bool, String, String, Option<char>),
    IsNull(bool, String),
    Not(Box<Expr>),
    And(Box<Expr>, Box<Expr>),
    Or(Box<Expr>, Box<Expr>),
}

/// How text is written: with all parentheses or with those that are needed, and with the white
/// space and the case of words drawn from a number.
pub(crate) struct Style {
    pub(crate) parentheses: bool,
    pub(crate) seed: u64,
}

impl Style {
    fn draw(&mut self, count: u64) -> u64 {
        self.seed = self.seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.seed >> 33) % count
    }

    fn space(&mut self) -> &'static str {
        [" ", "  ", "\t", "\n", " \r\n\x0c"][self.draw(5) as usize]
    }

    fn word(&mut self, word: &str) -> String {
        let cased = match self.draw(3) {
            0 => word.to_lowercase(),
            1 => word.to_owned(),
            _ => word[..1].to_owned() + &word[1..].to_lowercase(),
        };
        format!("{}{cased}{}", self.space(), self.space())
    }
}

fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

impl Expr {
    fn level(&self) -> u8 {
        match self {
            Self::Or(..) => 0,
            Self::And(..) => 1,
            Self::Not(_) => 2,
            Self::Compare(..) | Self::Between(..) | Self::In(..) | Self::Like(..) | Self::IsNull(..) => 3,
            Self::Arithmetic('+' | '-', ..) => 4,
            Self::Arithmetic(..) => 5,
            Self::Sign(..) => 6,
            Self::Long(value) if *value < 0 => 6,
            Self::Double(value) if value.is_sign_negative() => 6,
            _ => 7,
        }
    }

    pub(crate) fn text(&self, style: &mut Style) -> String {
        self.at_level(0, style)
    }

    /// The text where operators of `level` and above may stand.
    fn at_level(&self, level: u8, style: &mut Style) -> String {
        let text = self.bare(style);
        if style.parentheses || self.level() < level { format!("({text}{})", style.space()) } else { text }
    }

    fn bare(&self, style: &mut Style) -> String {
        let not = |negated: bool, style: &mut Style| if negated { style.word("NOT") } else { String::new() };
        match self {
            Self::Bool(value) => style.word(if *value { "TRUE" } else { "FALSE" }),
            Self::Long(value) => value.to_string(),
            Self::Double(value) => format!("{value:?}"),
            Self::Text(text) => quoted(text),
            Self::Name(name) => name.clone(),
            Self::Sign(minus, inner) => format!("{}{}", if *minus { "-" } else { "+" }, inner.at_level(6, style)),
            Self::Arithmetic(operator, left, right) => {
                let level = self.level();
                let left = left.at_level(level, style);
                format!("{left}{}{operator}{}", style.space(), right.at_level(level + 1, style))
            }
            Self::Compare(operator, left, right) => {
                let left = left.at_level(4, style);
                format!("{left}{}{operator}{}", style.space(), right.at_level(4, style))
            }
            Self::Between(negated, value, low, high) => {
                let (value, low, high) = (value.at_level(4, style), low.at_level(4, style), high.at_level(4, style));
                let not = not(*negated, style);
                format!("{value} {not}{}{low}{}{high}", style.word("BETWEEN"), style.word("AND"))
            }
            Self::In(negated, name, texts) => {
                let texts: Vec<_> = texts.iter().map(|text| quoted(text)).collect();
                let texts = texts.join(&format!("{},", style.space()));
                format!("{name} {}{}({texts})", not(*negated, style), style.word("IN"))
            }
            Self::Like(negated, name, pattern, escape) => {
                let like = format!("{name} {}{}{}", not(*negated, style), style.word("LIKE"), quoted(pattern));
                match escape {
                    Some(escape) => format!("{like}{}{}", style.word("ESCAPE"), quoted(&escape.to_string())),
                    None => like,
                }
            }
            Self::IsNull(negated, name) => {
                format!("{name} {}{}{}", style.word("IS"), not(*negated, style), style.word("NULL"))
            }
            Self::Not(inner) => format!("{}{}", style.word("NOT"), inner.at_level(2, style)),
            Self::And(left, right) => self.joined("AND", left, right, style),
            Self::Or(left, right) => self.joined("OR", left, right, style),
        }
    }

    fn joined(&self, word: &str, left: &Self, right: &Self, style: &mut Style) -> String {
        let level = self.level();
        let left = left.at_level(level, style);
        format!("{left}{}{}", style.word(word), right.at_level(level + 1, style))
    }
}

/// What an expression is.
#[derive(Clone, Debug, PartialEq)]
enum Plain {
    Unknown,
    Bool(bool),
    Long(i64),
    Double(f64),
    Text(String),
    Bytes(Vec<u8>),
    Other,
}

/// Whether the condition is true of the message; `None` is unknown.
pub(crate) fn truth(expr: &Expr, message: &Message) -> Option<bool> {
    match expr {
        Expr::Not(inner) => truth(inner, message).map(|inner| !inner),
        Expr::And(left, right) => match (truth(left, message), truth(right, message)) {
            (Some(true), Some(true)) => Some(true),
            (Some(false), _) | (_, Some(false)) => Some(false),
            _ => None,
        },
        Expr::Or(left, right) => match (truth(left, message), truth(right, message)) {
            (Some(false), Some(false)) => Some(false),
            (Some(true), _) | (_, Some(true)) => Some(true),
            _ => None,
        },
        Expr::Compare(operator, left, right) => compare(operator, &value(left, message), &value(right, message)),
        Expr::Between(negated, middle, low, high) => {
            let compare = |operator, bound: &Expr| Expr::Compare(operator, middle.clone(), Box::new(bound.clone()));
            let as_said = if *negated {
                Expr::Or(Box::new(compare("<", low)), Box::new(compare(">", high)))
            } else {
                Expr::And(Box::new(compare(">=", low)), Box::new(compare("<=", high)))
            };
            truth(&as_said, message)
        }
        Expr::In(negated, name, texts) => {
            let found = match named(name, message) {
                Plain::Unknown => return None,
                Plain::Text(text) => texts.contains(&text),
                _ => false,
            };
            Some(found != *negated)
        }
        Expr::Like(negated, name, pattern, escape) => {
            let found = match named(name, message) {
                Plain::Unknown => return None,
                Plain::Text(text) => like(&parts(pattern, *escape), &text.chars().collect::<Vec<_>>()),
                _ => false,
            };
            Some(found != *negated)
        }
        Expr::IsNull(negated, name) => Some((named(name, message) == Plain::Unknown) != *negated),
        other => match value(other, message) {
            Plain::Bool(value) => Some(value),
            _ => None,
        },
    }
}

fn value(expr: &Expr, message: &Message) -> Plain {
    match expr {
        Expr::Bool(value) => Plain::Bool(*value),
        Expr::Long(value) => Plain::Long(*value),
        Expr::Double(value) => Plain::Double(*value),
        Expr::Text(text) => Plain::Text(text.clone()),
        Expr::Name(name) => named(name, message),
        Expr::Sign(minus, inner) => match (value(inner, message), minus) {
            (Plain::Long(value), true) => Plain::Long(value.wrapping_neg()),
            (Plain::Double(value), true) => Plain::Double(-value),
            (number @ (Plain::Long(_) | Plain::Double(_)), false) => number,
            _ => Plain::Unknown,
        },
        Expr::Arithmetic(operator, left, right) => arithmetic(*operator, value(left, message), value(right, message)),
        condition => truth(condition, message).map_or(Plain::Unknown, Plain::Bool),
    }
}

fn arithmetic(operator: char, left: Plain, right: Plain) -> Plain {
    let (left, right) = match (left, right) {
        (Plain::Long(left), Plain::Long(right)) => {
            return match operator {
                '+' => Plain::Long(left.wrapping_add(right)),
                '-' => Plain::Long(left.wrapping_sub(right)),
                '*' => Plain::Long(left.wrapping_mul(right)),
                _ if right == 0 => Plain::Unknown,
                _ => Plain::Long(left.wrapping_div(right)),
            };
        }
        (Plain::Long(left), Plain::Double(right)) => (left as f64, right),
        (Plain::Double(left), Plain::Long(right)) => (left, right as f64),
        (Plain::Double(left), Plain::Double(right)) => (left, right),
        _ => return Plain::Unknown,
    };
    Plain::Double(match operator {
        '+' => left + right,
        '-' => left - right,
        '*' => left * right,
        _ => left / right,
    })
}

fn compare(operator: &str, left: &Plain, right: &Plain) -> Option<bool> {
    let ordered = |less: bool, equal: bool, greater: bool| match operator {
        "=" => equal,
        "<>" => !equal,
        "<" => less,
        "<=" => less || equal,
        ">" => greater,
        _ => greater || equal,
    };
    let doubles = |left: f64, right: f64| ordered(left < right, left == right, left > right);
    let same = |equal: bool| match operator {
        "=" => equal,
        "<>" => !equal,
        _ => false,
    };
    Some(match (left, right) {
        (Plain::Unknown, _) | (_, Plain::Unknown) => return None,
        (Plain::Long(left), Plain::Long(right)) => ordered(left < right, left == right, left > right),
        (Plain::Long(left), Plain::Double(right)) => doubles(*left as f64, *right),
        (Plain::Double(left), Plain::Long(right)) => doubles(*left, *right as f64),
        (Plain::Double(left), Plain::Double(right)) => doubles(*left, *right),
        (Plain::Text(left), Plain::Text(right)) => same(left == right),
        (Plain::Bool(left), Plain::Bool(right)) => same(left == right),
        (Plain::Bytes(left), Plain::Bytes(right)) => same(left == right),
        _ => false,
    })
}

/// One character of a pattern.
#[derive(Clone, Copy, PartialEq)]
enum Part {
    This(char),
    One,
    Many,
}

fn parts(pattern: &str, escape: Option<char>) -> Vec<Part> {
    let mut letters = pattern.chars();
    let mut parts = Vec::new();
    while let Some(letter) = letters.next() {
        parts.push(match letter {
            _ if Some(letter) == escape => Part::This(letters.next().expect("a good pattern")),
            '%' => Part::Many,
            '_' => Part::One,
            other => Part::This(other),
        });
    }
    parts
}

fn like(parts: &[Part], text: &[char]) -> bool {
    match (parts, text) {
        ([], []) => true,
        ([Part::Many, rest @ ..], _) => like(rest, text) || (!text.is_empty() && like(parts, &text[1..])),
        ([Part::One, parts @ ..], [_, text @ ..]) => like(parts, text),
        ([Part::This(part), parts @ ..], [letter, text @ ..]) => part == letter && like(parts, text),
        _ => false,
    }
}

pub(crate) fn plain_like(pattern: &str, escape: Option<char>, text: &str) -> bool {
    like(&parts(pattern, escape), &text.chars().collect::<Vec<_>>())
}

fn named(name: &str, message: &Message) -> Plain {
    let header = message.header.clone().unwrap_or_default();
    let properties = message.properties.clone().unwrap_or_default();
    let text = |text: Option<String>| text.map_or(Plain::Unknown, Plain::Text);
    match name {
        "JMSDeliveryMode" if header.durable => Plain::Text("PERSISTENT".to_owned()),
        "JMSDeliveryMode" => Plain::Text("NON_PERSISTENT".to_owned()),
        "JMSPriority" => Plain::Long(header.priority.into()),
        "JMSMessageID" => match properties.message_id {
            None => Plain::Unknown,
            Some(MessageId::String(id)) if id.starts_with("ID:") => Plain::Text(id),
            Some(MessageId::String(id)) => Plain::Text(format!("ID:AMQP_NO_PREFIX:{id}")),
            Some(MessageId::Ulong(id)) => Plain::Text(format!("ID:AMQP_ULONG:{id}")),
            Some(_) => panic!("not made here"),
        },
        "JMSTimestamp" => Plain::Long(properties.creation_time.unwrap_or(0)),
        "JMSType" => text(properties.subject),
        "JMSXGroupID" => text(properties.group_id),
        "JMSXGroupSeq" => properties.group_sequence.map_or(Plain::Unknown, |number| Plain::Long(number.into())),
        "JMSXDeliveryCount" => Plain::Long(i64::from(header.delivery_count) + 1),
        _ => property(message.application_properties.iter().find(|(key, _)| key == name).map(|(_, value)| value)),
    }
}

fn property(value: Option<&Value>) -> Plain {
    match value {
        None | Some(Value::Null) => Plain::Unknown,
        Some(Value::Bool(value)) => Plain::Bool(*value),
        Some(Value::Ubyte(value)) => Plain::Long((*value).into()),
        Some(Value::Ushort(value)) => Plain::Long((*value).into()),
        Some(Value::Uint(value)) => Plain::Long((*value).into()),
        Some(Value::Ulong(value)) if *value > i64::MAX as u64 => Plain::Double(*value as f64),
        Some(Value::Ulong(value)) => Plain::Long(*value as i64),
        Some(Value::Byte(value)) => Plain::Long((*value).into()),
        Some(Value::Short(value)) => Plain::Long((*value).into()),
        Some(Value::Int(value)) => Plain::Long((*value).into()),
        Some(Value::Long(value) | Value::Timestamp(value)) => Plain::Long(*value),
        Some(Value::Float(value)) => Plain::Double((*value).into()),
        Some(Value::Double(value)) => Plain::Double(*value),
        Some(Value::String(text)) => Plain::Text(text.clone()),
        Some(Value::Symbol(symbol)) => Plain::Text(symbol.as_str().to_owned()),
        Some(Value::Binary(bytes)) => Plain::Bytes(bytes.clone()),
        Some(Value::Uuid(bytes)) => Plain::Bytes(bytes.to_vec()),
        Some(_) => Plain::Other,
    }
}
