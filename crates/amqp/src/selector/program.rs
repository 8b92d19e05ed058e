//! A compiled selector: operations on a stack of operands, without recursion, in the order of the
//! text.

use smallvec::SmallVec;

use super::like::Pattern;
use super::names::Field;
use super::subject::{Needs, Slots, Subject, Texts};
use super::value::{Arithmetic, Comparison, Value};

/// Fields and stack operands that need no allocation: enough for typical selectors.
const INLINE: usize = 8;

/// The source of an operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Operand {
    /// the top of the stack, which is popped
    Stack,
    /// a field of the message
    Slot(u16),
    Constant(u16),
    /// the time
    Now,
}

/// A literal.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Constant {
    Bool(bool),
    Int(i64),
    Float(f64),
    Text(Box<str>),
    Binary(Box<[u8]>),
}

impl Constant {
    #[inline]
    pub(super) fn value(&self) -> Value<'_> {
        match self {
            Self::Bool(value) => Value::Bool(*value),
            Self::Int(value) => Value::Int(*value),
            Self::Float(value) => Value::Float(*value),
            Self::Text(text) => Value::Text(text),
            Self::Binary(bytes) => Value::Binary(bytes),
        }
    }
}

/// One operation: pops its operands, the last one from the top, and pushes its result.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Op {
    Push(Operand),
    Compare {
        comparison: Comparison,
        lexical: bool,
        left: Operand,
        right: Operand,
    },
    Arithmetic {
        operator: Arithmetic,
        left: Operand,
        right: Operand,
    },
    Negate(Operand),
    Number(Operand),
    Between {
        negated: bool,
        lexical: bool,
        value: Operand,
        low: Operand,
        high: Operand,
    },
    Like {
        value: Operand,
        pattern: u16,
    },
    /// whether the value is one of a set of texts
    InSet {
        value: Operand,
        set: u16,
    },
    /// below are the value to search for and whether it was found
    Member(Operand),
    /// removes the value below the top
    Nip,
    IsNull(Operand),
    Not,
    And,
    Or,
    /// jumps to the operation of that index; the top of the stack stays
    JumpIfFalse(u16),
    JumpIfTrue(u16),
}

impl Op {
    /// How many operands it pops.
    pub(super) fn taken(&self) -> usize {
        let operands = |operands: &[Operand]| operands.iter().filter(|operand| **operand == Operand::Stack).count();
        match *self {
            Self::Push(operand) | Self::Negate(operand) | Self::Number(operand) | Self::IsNull(operand) => {
                operands(&[operand])
            }
            Self::Like { value, .. } | Self::InSet { value, .. } => operands(&[value]),
            Self::Compare { left, right, .. } | Self::Arithmetic { left, right, .. } => operands(&[left, right]),
            Self::Between { value, low, high, .. } => operands(&[value, low, high]),
            Self::Member(operand) => 1 + operands(&[operand]),
            Self::Nip | Self::And | Self::Or => 2,
            Self::Not => 1,
            Self::JumpIfFalse(_) | Self::JumpIfTrue(_) => 0,
        }
    }

    /// Whether it pushes a result.
    pub(super) fn pushes(&self) -> bool {
        !matches!(self, Self::JumpIfFalse(_) | Self::JumpIfTrue(_))
    }
}

/// A selector ready to be evaluated.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Program {
    pub(super) ops: Vec<Op>,
    pub(super) constants: Vec<Constant>,
    /// each sorted
    pub(super) sets: Vec<Box<[Box<str>]>>,
    pub(super) patterns: Vec<Pattern>,
    /// one per slot
    pub(super) fields: Vec<Field>,
    pub(super) needs: Needs,
    /// whether it reads the time
    pub(super) now: bool,
    /// the greatest depth of the stack
    pub(super) stack_max: usize,
}

impl Program {
    /// Retargets jumps to jumps at their final destination, from the last to the first.
    pub(super) fn thread_jumps(&mut self) {
        for at in (0..self.ops.len()).rev() {
            let there = |target: u16| self.ops.get(usize::from(target)).copied();
            self.ops[at] = match self.ops[at] {
                Op::JumpIfFalse(target) => match there(target) {
                    Some(Op::JumpIfFalse(further)) => Op::JumpIfFalse(further),
                    Some(Op::JumpIfTrue(_)) => Op::JumpIfFalse(target + 1),
                    _ => continue,
                },
                Op::JumpIfTrue(target) => match there(target) {
                    Some(Op::JumpIfTrue(further)) => Op::JumpIfTrue(further),
                    Some(Op::JumpIfFalse(_)) => Op::JumpIfTrue(target + 1),
                    _ => continue,
                },
                _ => continue,
            };
        }
    }

    /// Whether the result is true, neither false nor unknown. False for a message whose needed
    /// sections are malformed.
    pub(super) fn matches(&self, subject: &Subject<'_>) -> bool {
        let texts = Texts::default();
        let mut inline = [Value::Null; INLINE];
        let mut beyond = SmallVec::<[Value<'_>; 0]>::new();
        let values = room(self.fields.len(), &mut inline, &mut beyond);
        values.iter_mut().zip(&self.fields).for_each(|(value, field)| *value = field.absent);
        let mut slots = Slots { values, fields: &self.fields, texts: &texts };
        if self.needs.fill(subject, &mut slots).is_err() {
            return false;
        }
        let mut inline = [Value::Null; INLINE];
        let mut beyond = SmallVec::<[Value<'_>; 0]>::new();
        let stack = room(self.stack_max, &mut inline, &mut beyond);
        Machine { program: self, slots: slots.values, now: subject.now(), stack, height: 0 }.run()
    }
}

/// Room for `count` values.
#[inline]
fn room<'r, 'v>(
    count: usize,
    inline: &'r mut [Value<'v>; INLINE],
    beyond: &'r mut SmallVec<[Value<'v>; 0]>,
) -> &'r mut [Value<'v>] {
    if count > INLINE {
        beyond.resize(count, Value::Null);
        return beyond;
    }
    &mut inline[..count]
}

struct Machine<'v, 's> {
    program: &'v Program,
    slots: &'s [Value<'v>],
    now: Value<'v>,
    stack: &'s mut [Value<'v>],
    height: usize,
}

impl<'v> Machine<'v, '_> {
    /// Whether the result of the last operation is true. Jumps go forward, so there are at most as
    /// many steps as operations.
    #[inline]
    fn run(&mut self) -> bool {
        let mut at = 0;
        while let Some(op) = self.program.ops.get(at) {
            at = match *op {
                Op::JumpIfFalse(target) if self.top().truth() == Some(false) => usize::from(target),
                Op::JumpIfTrue(target) if self.top().truth() == Some(true) => usize::from(target),
                Op::JumpIfFalse(_) | Op::JumpIfTrue(_) => at + 1,
                _ => {
                    let result = self.step(op);
                    self.push(result);
                    at + 1
                }
            };
        }
        self.top().truth() == Some(true)
    }

    #[inline]
    fn step(&mut self, op: &Op) -> Value<'v> {
        match *op {
            Op::Push(operand) => self.take(operand),
            Op::Compare { comparison, lexical, left, right } => {
                let right = self.take(right);
                Value::of_truth(comparison.compare(self.take(left), right, lexical))
            }
            Op::Arithmetic { operator, left, right } => {
                let right = self.take(right);
                operator.apply(self.take(left), right)
            }
            Op::Negate(operand) => self.take(operand).negated(),
            Op::Number(operand) => self.take(operand).number(),
            Op::Between { negated, lexical, value, low, high } => {
                let (high, low) = (self.take(high), self.take(low));
                Value::of_truth(between(self.take(value), low, high, negated, lexical))
            }
            Op::Like { value, pattern } => match self.take(value) {
                Value::Null => Value::Null,
                Value::Text(text) => Value::Bool(self.program.patterns[usize::from(pattern)].matches(text)),
                _ => Value::Bool(false),
            },
            Op::InSet { value, set } => match self.take(value) {
                Value::Null => Value::Null,
                Value::Text(text) => {
                    let set = &self.program.sets[usize::from(set)];
                    Value::Bool(set.binary_search_by(|member| (**member).cmp(text)).is_ok())
                }
                _ => Value::Bool(false),
            },
            Op::Member(operand) => self.member(operand),
            Op::Nip => {
                let top = self.pop();
                self.pop();
                top
            }
            Op::IsNull(operand) => Value::Bool(self.take(operand) == Value::Null),
            Op::Not => Value::of_truth(self.pop().truth().map(|truth| !truth)),
            Op::And | Op::JumpIfFalse(_) => {
                let right = self.pop().truth();
                Value::of_truth(and(self.pop().truth(), right))
            }
            Op::Or | Op::JumpIfTrue(_) => {
                let right = self.pop().truth();
                Value::of_truth(or(self.pop().truth(), right))
            }
        }
    }

    fn member(&mut self, operand: Operand) -> Value<'v> {
        let member = self.take(operand);
        let found = self.pop().truth();
        let value = self.top();
        Value::of_truth(or(found, Comparison::Equal.compare(value, member, false)))
    }

    #[inline]
    fn take(&mut self, operand: Operand) -> Value<'v> {
        match operand {
            Operand::Stack => self.pop(),
            Operand::Slot(slot) => self.slots[usize::from(slot)],
            Operand::Constant(constant) => self.program.constants[usize::from(constant)].value(),
            Operand::Now => self.now,
        }
    }

    #[inline]
    fn push(&mut self, value: Value<'v>) {
        self.stack[self.height] = value;
        self.height += 1;
    }

    #[inline]
    fn pop(&mut self) -> Value<'v> {
        self.height -= 1;
        self.stack[self.height]
    }

    #[inline]
    fn top(&self) -> Value<'v> {
        self.stack[self.height - 1]
    }
}

/// Table 3-4.
#[inline]
fn and(left: Option<bool>, right: Option<bool>) -> Option<bool> {
    match (left, right) {
        (Some(false), _) | (_, Some(false)) => Some(false),
        (Some(true), Some(true)) => Some(true),
        _ => None,
    }
}

/// Table 3-5.
#[inline]
fn or(left: Option<bool>, right: Option<bool>) -> Option<bool> {
    match (left, right) {
        (Some(true), _) | (_, Some(true)) => Some(true),
        (Some(false), Some(false)) => Some(false),
        _ => None,
    }
}

/// `value >= low AND value <= high`, or `value < low OR value > high`: the second is not the
/// opposite of the first where types are unlike.
fn between(value: Value<'_>, low: Value<'_>, high: Value<'_>, negated: bool, lexical: bool) -> Option<bool> {
    if negated {
        or(Comparison::Less.compare(value, low, lexical), Comparison::Greater.compare(value, high, lexical))
    } else {
        and(
            Comparison::GreaterOrEqual.compare(value, low, lexical),
            Comparison::LessOrEqual.compare(value, high, lexical),
        )
    }
}
