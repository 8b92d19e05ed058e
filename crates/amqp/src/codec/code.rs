//! The constructors of encoded values (part 1, 1.6).

macro_rules! codes {
    ($($name:ident = $code:literal, $type:literal;)*) => {
        $(pub(super) const $name: u8 = $code;)*
        const NAMES: &[(u8, &str)] = &[$(($code, $type)),*];
    };
}

codes! {
    DESCRIBED = 0x00, "a described type";
    NULL = 0x40, "null";
    TRUE = 0x41, "boolean";
    FALSE = 0x42, "boolean";
    UINT_0 = 0x43, "uint";
    ULONG_0 = 0x44, "ulong";
    LIST_0 = 0x45, "list";
    UBYTE = 0x50, "ubyte";
    BYTE = 0x51, "byte";
    SMALL_UINT = 0x52, "uint";
    SMALL_ULONG = 0x53, "ulong";
    SMALL_INT = 0x54, "int";
    SMALL_LONG = 0x55, "long";
    BOOLEAN = 0x56, "boolean";
    USHORT = 0x60, "ushort";
    SHORT = 0x61, "short";
    UINT = 0x70, "uint";
    INT = 0x71, "int";
    FLOAT = 0x72, "float";
    CHAR = 0x73, "char";
    DECIMAL_32 = 0x74, "decimal32";
    ULONG = 0x80, "ulong";
    LONG = 0x81, "long";
    DOUBLE = 0x82, "double";
    TIMESTAMP = 0x83, "timestamp";
    DECIMAL_64 = 0x84, "decimal64";
    DECIMAL_128 = 0x94, "decimal128";
    UUID = 0x98, "uuid";
    BINARY_8 = 0xa0, "binary";
    STRING_8 = 0xa1, "string";
    SYM_8 = 0xa3, "symbol";
    BINARY_32 = 0xb0, "binary";
    STRING_32 = 0xb1, "string";
    SYM_32 = 0xb3, "symbol";
    LIST_8 = 0xc0, "list";
    MAP_8 = 0xc1, "map";
    LIST_32 = 0xd0, "list";
    MAP_32 = 0xd1, "map";
    ARRAY_8 = 0xe0, "array";
    ARRAY_32 = 0xf0, "array";
}

/// The type that a constructor stands for: its name in part 1, 1.6.
pub(super) fn type_name(code: u8) -> &'static str {
    NAMES.iter().find(|(known, _)| *known == code).map_or("no type", |(_, name)| name)
}
