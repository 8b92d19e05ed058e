//! A second encoder that is free in everything that the standard leaves open: wide or narrow forms,
//! numbers or symbols as descriptors, nulls at the end or nothing. Its output must decode to the
//! same value.

use enmasse_amqp::types::Value;

/// Chooses between two legal encodings, from a seed.
pub(crate) struct Choice(u64);

impl Choice {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed | 1)
    }

    fn flip(&mut self) -> bool {
        // xorshift64: any cheap spread of bits will do.
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 & 4 == 0
    }
}

/// Encodes `value`.
pub(crate) fn encode(out: &mut Vec<u8>, value: &Value, choice: &mut Choice) {
    match value {
        Value::Bool(value) if choice.flip() => out.extend([0x56, u8::from(*value)]),
        Value::Uint(value) if *value > 255 || choice.flip() => fixed(out, 0x70, &value.to_be_bytes()),
        Value::Uint(value) if *value > 0 || choice.flip() => out.extend([0x52, *value as u8]),
        Value::Ulong(value) if *value > 255 || choice.flip() => fixed(out, 0x80, &value.to_be_bytes()),
        Value::Ulong(value) if *value > 0 || choice.flip() => out.extend([0x53, *value as u8]),
        Value::Int(value) if choice.flip() => fixed(out, 0x71, &value.to_be_bytes()),
        Value::Long(value) if choice.flip() => fixed(out, 0x81, &value.to_be_bytes()),
        Value::Binary(bytes) => variable(out, 0xa0, bytes, choice),
        Value::String(text) => variable(out, 0xa1, text.as_bytes(), choice),
        Value::Symbol(symbol) => variable(out, 0xa3, symbol.as_str().as_bytes(), choice),
        Value::List(list) if list.is_empty() && choice.flip() => out.push(0x45),
        Value::List(list) => {
            let mut content = Vec::new();
            list.iter().for_each(|value| encode(&mut content, value, choice));
            compound(out, 0xc0, &content, list.len(), choice);
        }
        Value::Map(map) => {
            let mut content = Vec::new();
            for (key, value) in map {
                encode(&mut content, key, choice);
                encode(&mut content, value, choice);
            }
            compound(out, 0xc1, &content, map.len() * 2, choice);
        }
        Value::Described(pair) => {
            out.push(0);
            match (&pair.0, &pair.1) {
                (Value::Ulong(number), Value::List(list)) if name(*number).is_some() => {
                    if choice.flip() {
                        variable(out, 0xa3, name(*number).unwrap_or_default().as_bytes(), choice);
                    } else {
                        encode(out, &pair.0, choice);
                    }
                    composite(out, list, choice);
                }
                (descriptor, value) => {
                    encode(out, descriptor, choice);
                    encode(out, value, choice);
                }
            }
        }
        other => enmasse_amqp::codec::encode_value(out, other),
    }
}

/// A composite type may end in nulls or without them, and needs no array around a single symbol.
fn composite(out: &mut Vec<u8>, list: &[Value], choice: &mut Choice) {
    let mut list = list.to_vec();
    for field in &mut list {
        let single = match field {
            Value::Array(array) if array.len() == 1 && choice.flip() => array.pop(),
            _ => None,
        };
        if let Some(symbol) = single {
            *field = symbol;
        }
    }
    let most = 10.max(list.len());
    while list.len() < most && choice.flip() {
        list.push(Value::Null);
    }
    encode(out, &Value::List(list), choice);
}

fn fixed(out: &mut Vec<u8>, code: u8, bytes: &[u8]) {
    out.push(code);
    out.extend(bytes);
}

fn variable(out: &mut Vec<u8>, code: u8, bytes: &[u8], choice: &mut Choice) {
    if bytes.len() > 255 || choice.flip() {
        out.push(code + 0x10);
        out.extend((bytes.len() as u32).to_be_bytes());
    } else {
        out.extend([code, bytes.len() as u8]);
    }
    out.extend(bytes);
}

fn compound(out: &mut Vec<u8>, code: u8, content: &[u8], count: usize, choice: &mut Choice) {
    if content.len() > 254 || count > 255 || choice.flip() {
        out.push(code + 0x10);
        out.extend((content.len() as u32 + 4).to_be_bytes());
        out.extend((count as u32).to_be_bytes());
    } else {
        out.extend([code, content.len() as u8 + 1, count as u8]);
    }
    out.extend(content);
}

/// The symbols of the composite types, as the standard lists them.
fn name(number: u64) -> Option<&'static str> {
    Some(match number {
        0x10 => "amqp:open:list",
        0x11 => "amqp:begin:list",
        0x12 => "amqp:attach:list",
        0x13 => "amqp:flow:list",
        0x14 => "amqp:transfer:list",
        0x15 => "amqp:disposition:list",
        0x16 => "amqp:detach:list",
        0x17 => "amqp:end:list",
        0x18 => "amqp:close:list",
        0x1d => "amqp:error:list",
        0x23 => "amqp:received:list",
        0x24 => "amqp:accepted:list",
        0x25 => "amqp:rejected:list",
        0x26 => "amqp:released:list",
        0x27 => "amqp:modified:list",
        0x28 => "amqp:source:list",
        0x29 => "amqp:target:list",
        0x30 => "amqp:coordinator:list",
        0x33 => "amqp:declared:list",
        0x34 => "amqp:transactional-state:list",
        0x40 => "amqp:sasl-mechanisms:list",
        0x41 => "amqp:sasl-init:list",
        0x42 => "amqp:sasl-challenge:list",
        0x43 => "amqp:sasl-response:list",
        0x44 => "amqp:sasl-outcome:list",
        0x70 => "amqp:header:list",
        0x73 => "amqp:properties:list",
        _ => return None,
    })
}
