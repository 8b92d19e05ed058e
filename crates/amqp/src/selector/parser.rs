//! The grammar (JMS 2.0, 3.8.1.1), by recursive descent, emitting the program as it goes.
//!
//! ```text
//! or        = and { OR and }
//! and       = not { AND not }
//! not       = NOT not | predicate
//! predicate = sum [ comparison sum | [NOT] BETWEEN sum AND sum | [NOT] IN list | [NOT] LIKE string [ESCAPE string]
//!                 | IS [NOT] NULL ]
//! sum       = product { ( + | - ) product }
//! product   = sign { ( * | / | % ) sign }
//! sign      = ( + | - ) sign | primary
//! primary   = literal | identifier | UTC() | "(" or ")"
//! ```
//!
//! A term that is a field or a literal is an operand of the operation and is not pushed on the
//! stack.

use super::error::{Problem, quote};
use super::lexer::Lexer;
use super::like::{Pattern, PatternFault, SEARCHED_MAX};
use super::names::{self, Field};
use super::program::{Constant, Op, Operand, Program};
use super::subject::Needs;
use super::token::{Mark, Token, Word};
use super::value::{Arithmetic, Comparison};
use super::{Dialect, IDENTIFIERS_MAX, NESTING_MAX, OPERATIONS_MAX, TEXT_MAX_BYTES};

/// Compiles `text`; `None` if it is blank.
pub(super) fn parse(text: &str, dialect: Dialect) -> Result<Option<Program>, Problem> {
    parse_all(None, text, dialect)
}

/// Compiles `text` as a further condition in addition to `before`. Blank text adds nothing.
pub(super) fn parse_all(before: Option<Program>, text: &str, dialect: Dialect) -> Result<Option<Program>, Problem> {
    if text.len() > TEXT_MAX_BYTES {
        let problem = format!("the text has {} bytes", text.len());
        return Err(Problem::new(0, problem, format!("write at most {TEXT_MAX_BYTES}")));
    }
    let mut lexer = Lexer::new(text, dialect);
    let (token, at) = lexer.next()?;
    if token == Token::End {
        return Ok(before);
    }
    let joined = before.is_some();
    let height = usize::from(joined);
    let program = before.unwrap_or_default();
    let mut parser = Parser { text, dialect, lexer, token, at, depth: 0, height, program };
    let whole = parser.or()?;
    parser.condition(&whole)?;
    if parser.token != Token::End {
        return Err(parser.unexpected("the end, AND or OR"));
    }
    parser.push(&whole)?;
    if joined {
        parser.emit(Op::And)?;
    }
    let mut program = parser.program;
    program.thread_jumps();
    program.needs = Needs::new(&program.fields);
    Ok(Some(program))
}

/// The static type of a term.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// a field: it depends on the message
    Field,
    Condition,
    Bool,
    Number,
    Text,
    Binary,
}

/// A part of an expression, compiled.
#[derive(Clone, Copy, Debug)]
struct Term {
    operand: Operand,
    kind: Kind,
    at: usize,
}

struct Parser<'t> {
    text: &'t str,
    dialect: Dialect,
    lexer: Lexer<'t>,
    /// the current token
    token: Token<'t>,
    /// where it begins
    at: usize,
    depth: usize,
    /// operands on the stack after the emitted operations
    height: usize,
    program: Program,
}

type Parsed<T = Term> = Result<T, Problem>;

impl<'t> Parser<'t> {
    fn or(&mut self) -> Parsed {
        self.chain(Word::Or, Op::Or, Op::JumpIfTrue, Self::and)
    }

    fn and(&mut self) -> Parsed {
        self.chain(Word::And, Op::And, Op::JumpIfFalse, Self::not)
    }

    /// Conditions joined by one word. A jump skips the rest once the result is certain.
    fn chain(&mut self, word: Word, op: Op, jump: fn(u16) -> Op, part: fn(&mut Self) -> Parsed) -> Parsed {
        let first = part(self)?;
        if self.token != Token::Word(word) {
            return Ok(first);
        }
        self.condition(&first)?;
        self.push(&first)?;
        let mut jumps = Vec::new();
        while self.accept(&Token::Word(word))? {
            jumps.push(self.program.ops.len());
            self.emit(jump(0))?;
            let next = part(self)?;
            self.condition(&next)?;
            self.push(&next)?;
            self.emit(op)?;
        }
        let end = self.program.ops.len() as u16;
        for at in jumps {
            self.program.ops[at] = jump(end);
        }
        Ok(Term { operand: Operand::Stack, kind: Kind::Condition, at: first.at })
    }

    fn not(&mut self) -> Parsed {
        let at = self.at;
        if !self.accept(&Token::Word(Word::Not))? {
            return self.predicate();
        }
        let inner = self.deeper(at, Self::not)?;
        self.condition(&inner)?;
        self.push(&inner)?;
        self.result(Op::Not, Kind::Condition, at)
    }

    fn predicate(&mut self) -> Parsed {
        let left = self.sum()?;
        if let Token::Mark(mark) = self.token
            && let Some(comparison) = comparison_of(mark)
        {
            return self.comparison(&left, comparison);
        }
        let negated = self.token == Token::Word(Word::Not);
        if negated {
            self.advance()?;
        }
        match self.token {
            Token::Word(Word::Between) => self.between(&left, negated),
            Token::Word(Word::In) => self.within(&left, negated),
            Token::Word(Word::Like) => self.like(&left, negated),
            Token::Word(Word::Is) if !negated => self.is_null(&left),
            _ if negated => Err(self.unexpected("BETWEEN, IN or LIKE after NOT")),
            _ => Ok(left),
        }
    }

    fn comparison(&mut self, left: &Term, comparison: Comparison) -> Parsed {
        self.advance()?;
        if self.token == Token::Word(Word::Null) {
            return Err(Problem::new(self.at, "NULL cannot be compared", "write IS NULL or IS NOT NULL"));
        }
        let right = self.sum()?;
        if comparison.orders() {
            self.ordered(left)?;
            self.ordered(&right)?;
        }
        if let Token::Mark(mark) = self.token
            && comparison_of(mark).is_some()
        {
            return Err(Problem::new(
                self.at,
                "comparisons cannot be chained",
                "put one of them in parentheses, or write AND",
            ));
        }
        let lexical = self.lexical();
        let op = Op::Compare { comparison, lexical, left: left.operand, right: right.operand };
        self.result(op, Kind::Condition, left.at)
    }

    fn between(&mut self, value: &Term, negated: bool) -> Parsed {
        self.advance()?;
        let low = self.sum()?;
        self.expect(&Token::Word(Word::And), "AND between the bounds")?;
        let high = self.sum()?;
        for term in [value, &low, &high] {
            self.ordered(term)?;
        }
        let (value_at, lexical) = (value.at, self.lexical());
        let (value, low, high) = (value.operand, low.operand, high.operand);
        self.result(Op::Between { negated, lexical, value, low, high }, Kind::Condition, value_at)
    }

    fn like(&mut self, value: &Term, negated: bool) -> Parsed {
        self.field_of(value, "LIKE")?;
        self.advance()?;
        let pattern_at = self.at;
        let text = self.string("the pattern, a string")?;
        let mut escape = None;
        let escape_at = self.at;
        if self.accept(&Token::Word(Word::Escape))? {
            let text = self.string("the escape character, a string of one character")?;
            let mut letters = text.chars();
            escape = letters.next();
            if escape.is_none() || letters.next().is_some() {
                let remedy = "write a string of one character, like ESCAPE '\\'";
                return Err(Problem::new(escape_at, "ESCAPE takes one character", remedy));
            }
        }
        let pattern = Pattern::new(&text, escape).map_err(|fault| match fault {
            PatternFault::Escape => Problem::new(
                pattern_at,
                "the pattern ends with its escape character",
                "write the character that is escaped after it, or the escape character twice",
            ),
            PatternFault::Long => Problem::new(
                pattern_at,
                "the pattern has a long part with _ between two %",
                format!("write at most {SEARCHED_MAX} characters there, or remove the _ or a %"),
            ),
        })?;
        self.program.patterns.push(pattern);
        let op = Op::Like { value: value.operand, pattern: (self.program.patterns.len() - 1) as u16 };
        self.negatable(op, negated, value.at)
    }

    fn is_null(&mut self, value: &Term) -> Parsed {
        self.field_of(value, "IS NULL")?;
        self.advance()?;
        let negated = self.accept(&Token::Word(Word::Not))?;
        self.expect(&Token::Word(Word::Null), "NULL")?;
        self.negatable(Op::IsNull(value.operand), negated, value.at)
    }

    fn within(&mut self, value: &Term, negated: bool) -> Parsed {
        self.field_of(value, "IN")?;
        self.advance()?;
        self.expect(&Token::Mark(Mark::Open), "( before the list")?;
        let mut texts: Vec<Box<str>> = Vec::new();
        while let Token::Text(text) = &self.token {
            texts.push(text.as_ref().into());
            self.advance()?;
            if self.accept(&Token::Mark(Mark::Close))? {
                texts.sort_unstable();
                texts.dedup();
                self.program.sets.push(texts.into());
                let op = Op::InSet { value: value.operand, set: (self.program.sets.len() - 1) as u16 };
                return self.negatable(op, negated, value.at);
            }
            self.expect(&Token::Mark(Mark::Comma), ", or ) in the list of IN")?;
        }
        if self.dialect == Dialect::Jms {
            return Err(self.unexpected("a string in the list of IN (for numbers write = and OR)"));
        }
        self.member_of(value, texts, negated)
    }

    /// The rest of a list of IN that has more than strings, which only SQL filters have.
    fn member_of(&mut self, value: &Term, texts: Vec<Box<str>>, negated: bool) -> Parsed {
        self.push(value)?;
        let found = self.constant(Constant::Bool(false), Kind::Bool, value.at)?;
        self.push(&found)?;
        for text in texts {
            let text = self.constant(Constant::Text(text), Kind::Text, value.at)?;
            self.emit(Op::Member(text.operand))?;
        }
        loop {
            let member = self.sum()?;
            self.emit(Op::Member(member.operand))?;
            if self.accept(&Token::Mark(Mark::Close))? {
                return self.negatable(Op::Nip, negated, value.at);
            }
            self.expect(&Token::Mark(Mark::Comma), ", or ) in the list of IN")?;
        }
    }

    fn sum(&mut self) -> Parsed {
        let operator = |mark| match mark {
            Mark::Plus => Some(Arithmetic::Add),
            Mark::Minus => Some(Arithmetic::Subtract),
            _ => None,
        };
        self.arithmetic(operator, Self::product)
    }

    fn product(&mut self) -> Parsed {
        let operator = |mark| match mark {
            Mark::Star => Some(Arithmetic::Multiply),
            Mark::Slash => Some(Arithmetic::Divide),
            Mark::Percent => Some(Arithmetic::Remainder),
            _ => None,
        };
        self.arithmetic(operator, Self::sign)
    }

    fn arithmetic(&mut self, operator: fn(Mark) -> Option<Arithmetic>, part: fn(&mut Self) -> Parsed) -> Parsed {
        let mut left = part(self)?;
        while let Token::Mark(mark) = self.token
            && let Some(operator) = operator(mark)
        {
            self.numeric(&left)?;
            self.advance()?;
            let right = part(self)?;
            self.numeric(&right)?;
            let op = Op::Arithmetic { operator, left: left.operand, right: right.operand };
            left = self.result(op, Kind::Number, left.at)?;
        }
        Ok(left)
    }

    fn sign(&mut self) -> Parsed {
        let at = self.at;
        let negative = match self.token {
            Token::Mark(Mark::Minus) => true,
            Token::Mark(Mark::Plus) => false,
            _ => return self.primary(),
        };
        self.advance()?;
        if negative && self.accept(&Token::IntMin)? {
            return self.constant(Constant::Int(i64::MIN), Kind::Number, at);
        }
        let inner = self.deeper(at, Self::sign)?;
        self.numeric(&inner)?;
        if let (Operand::Constant(constant), true) = (inner.operand, negative) {
            match &mut self.program.constants[usize::from(constant)] {
                Constant::Int(value) => *value = value.wrapping_neg(),
                Constant::Float(value) => *value = -*value,
                _ => {}
            }
        }
        match inner.operand {
            Operand::Constant(_) => Ok(Term { at, ..inner }),
            operand => self.result(if negative { Op::Negate(operand) } else { Op::Number(operand) }, Kind::Number, at),
        }
    }

    fn primary(&mut self) -> Parsed {
        let at = self.at;
        let (constant, kind) = match &self.token {
            Token::Word(word @ (Word::True | Word::False)) => (Constant::Bool(*word == Word::True), Kind::Bool),
            Token::Text(text) => (Constant::Text(text.as_ref().into()), Kind::Text),
            Token::Binary(bytes) => (Constant::Binary(bytes.clone()), Kind::Binary),
            Token::Int(value) => (Constant::Int(*value), Kind::Number),
            Token::Float(value) => (Constant::Float(*value), Kind::Number),
            Token::Mark(Mark::Open) => {
                self.advance()?;
                let inner = self.deeper(at, Self::or)?;
                self.expect(&Token::Mark(Mark::Close), "an operator or )")?;
                return Ok(Term { at, ..inner });
            }
            Token::Name(_) | Token::Delimited(_) => return self.name(),
            Token::IntMin => {
                return Err(Problem::new(at, "the number is beyond the range of a long", "write a smaller number"));
            }
            _ => return Err(self.unexpected("a name, a literal or (")),
        };
        self.advance()?;
        self.constant(constant, kind, at)
    }

    /// An identifier, or a function of SQL filters.
    fn name(&mut self) -> Parsed {
        let at = self.at;
        let token = self.advance()?;
        let field = match (token, self.dialect) {
            (Token::Name(name), Dialect::Jms) => names::jms(name, at)?,
            (Token::Name(section), Dialect::AmqpSql) if self.token == Token::Mark(Mark::Dot) => {
                self.advance()?;
                let name = self.field_name()?;
                names::sql(section, &name, at)?
            }
            (Token::Name(name), Dialect::AmqpSql) if self.token == Token::Mark(Mark::Open) => {
                return self.function(name, at);
            }
            (Token::Name("INF"), _) => return self.constant(Constant::Float(f64::INFINITY), Kind::Number, at),
            (Token::Name("NAN"), _) => return self.constant(Constant::Float(f64::NAN), Kind::Number, at),
            (Token::Name(name), Dialect::AmqpSql) => names::application(name),
            (Token::Delimited(name), _) => names::application(&name),
            _ => return Err(self.unexpected("a name")),
        };
        if self.token == Token::Mark(Mark::Dot) || matches!(self.token, Token::Delimited(_)) {
            let remedy = "name a whole field, and write a point in its name in brackets, like [a.b]";
            return Err(Problem::new(self.at, "filters cannot look into lists and maps", remedy));
        }
        Ok(Term { operand: Operand::Slot(self.slot(field, at)?), kind: Kind::Field, at })
    }

    /// The name after a section and a point, where reserved words are names as well.
    fn field_name(&mut self) -> Parsed<String> {
        let name = match &self.token {
            Token::Name(name) => (*name).to_owned(),
            Token::Delimited(name) => name.clone(),
            Token::Word(_) => self.found().to_owned(),
            _ => return Err(self.unexpected("the name of a field")),
        };
        self.advance()?;
        Ok(name)
    }

    fn function(&mut self, name: &str, at: usize) -> Parsed {
        if !name.eq_ignore_ascii_case("UTC") {
            let problem = format!("the function '{}' is unknown", quote(name));
            return Err(Problem::new(at, problem, "the only function is UTC()"));
        }
        self.advance()?;
        self.expect(&Token::Mark(Mark::Close), ") after UTC(")?;
        self.program.now = true;
        Ok(Term { operand: Operand::Now, kind: Kind::Number, at })
    }

    /// The slot of `field`, shared by all its occurrences.
    fn slot(&mut self, field: Field, at: usize) -> Parsed<u16> {
        let fields = &mut self.program.fields;
        if let Some(slot) = fields.iter().position(|known| *known == field) {
            return Ok(slot as u16);
        }
        if fields.len() == IDENTIFIERS_MAX {
            let remedy = format!("name at most {IDENTIFIERS_MAX}");
            return Err(Problem::new(at, "the selector names too many fields and properties", remedy));
        }
        fields.push(field);
        Ok((fields.len() - 1) as u16)
    }

    fn constant(&mut self, constant: Constant, kind: Kind, at: usize) -> Parsed {
        self.program.constants.push(constant);
        Ok(Term { operand: Operand::Constant((self.program.constants.len() - 1) as u16), kind, at })
    }

    /// An operation, and after it NOT if it is `negated`.
    fn negatable(&mut self, op: Op, negated: bool, at: usize) -> Parsed {
        let term = self.result(op, Kind::Condition, at)?;
        if negated { self.result(Op::Not, Kind::Condition, at) } else { Ok(term) }
    }

    fn result(&mut self, op: Op, kind: Kind, at: usize) -> Parsed {
        self.emit(op)?;
        Ok(Term { operand: Operand::Stack, kind, at })
    }

    /// Puts a term on the stack, if it is not there.
    fn push(&mut self, term: &Term) -> Parsed<()> {
        if term.operand == Operand::Stack { Ok(()) } else { self.emit(Op::Push(term.operand)) }
    }

    fn emit(&mut self, op: Op) -> Parsed<()> {
        if self.program.ops.len() == OPERATIONS_MAX {
            let problem = format!("the selector has more than {OPERATIONS_MAX} operations");
            return Err(Problem::new(self.at, problem, "write a shorter one, with IN in place of many OR"));
        }
        self.program.ops.push(op);
        self.height += usize::from(op.pushes());
        self.height -= op.taken();
        self.program.stack_max = self.program.stack_max.max(self.height);
        Ok(())
    }

    fn lexical(&self) -> bool {
        self.dialect == Dialect::AmqpSql
    }

    /// AND, OR, NOT and the whole selector take conditions.
    fn condition(&self, term: &Term) -> Parsed<()> {
        if matches!(term.kind, Kind::Field | Kind::Condition | Kind::Bool) {
            return Ok(());
        }
        Err(Problem::new(term.at, "this is a value, not a condition", "compare it with something"))
    }

    fn numeric(&self, term: &Term) -> Parsed<()> {
        if matches!(term.kind, Kind::Field | Kind::Number) {
            return Ok(());
        }
        Err(Problem::new(term.at, "arithmetic needs numbers", "put comparisons in parentheses"))
    }

    fn ordered(&self, term: &Term) -> Parsed<()> {
        let good = match term.kind {
            Kind::Field | Kind::Number => true,
            Kind::Text | Kind::Binary => self.lexical(),
            Kind::Condition | Kind::Bool => false,
        };
        if good {
            return Ok(());
        }
        Err(Problem::new(term.at, "strings and booleans have no order", "compare them with = or <>"))
    }

    /// IN, LIKE and IS NULL of JMS selectors apply to a field, not to an expression.
    fn field_of(&self, term: &Term, operator: &str) -> Parsed<()> {
        if term.kind == Kind::Field || self.dialect == Dialect::AmqpSql {
            return Ok(());
        }
        Err(Problem::new(term.at, format!("only a name is allowed before {operator}"), "write a name there"))
    }

    fn deeper(&mut self, at: usize, part: fn(&mut Self) -> Parsed) -> Parsed {
        if self.depth == NESTING_MAX {
            let problem = format!("the selector nests deeper than {NESTING_MAX} levels");
            return Err(Problem::new(at, problem, "remove unneeded parentheses, NOTs or signs"));
        }
        self.depth += 1;
        let term = part(self);
        self.depth -= 1;
        term
    }

    fn string(&mut self, wanted: &str) -> Parsed<String> {
        match &self.token {
            Token::Text(text) => {
                let text = text.as_ref().to_owned();
                self.advance()?;
                Ok(text)
            }
            _ => Err(self.unexpected(wanted)),
        }
    }

    fn expect(&mut self, token: &Token<'_>, wanted: &str) -> Parsed<()> {
        if self.accept(token)? { Ok(()) } else { Err(self.unexpected(wanted)) }
    }

    fn accept(&mut self, token: &Token<'_>) -> Parsed<bool> {
        let found = self.token == *token;
        if found {
            self.advance()?;
        }
        Ok(found)
    }

    /// Advances, and returns the token that was current.
    fn advance(&mut self) -> Parsed<Token<'t>> {
        let (token, at) = self.lexer.next()?;
        self.at = at;
        Ok(std::mem::replace(&mut self.token, token))
    }

    /// The current token, as written.
    fn found(&self) -> &'t str {
        &self.text[self.at..self.lexer.at()]
    }

    #[cold]
    fn unexpected(&self, wanted: &str) -> Problem {
        let found = match self.token {
            Token::End => "the selector ends".to_owned(),
            _ => format!("'{}' is not allowed here", quote(self.found())),
        };
        Problem::new(self.at, found, format!("expected {wanted}"))
    }
}

fn comparison_of(mark: Mark) -> Option<Comparison> {
    Some(match mark {
        Mark::Equal => Comparison::Equal,
        Mark::NotEqual => Comparison::NotEqual,
        Mark::Less => Comparison::Less,
        Mark::LessOrEqual => Comparison::LessOrEqual,
        Mark::Greater => Comparison::Greater,
        Mark::GreaterOrEqual => Comparison::GreaterOrEqual,
        _ => return None,
    })
}
