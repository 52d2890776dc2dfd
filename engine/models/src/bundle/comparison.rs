//! Functions of configs that select voxels: `lambda x: x > 0.5`.

use hearth_bundle::Function;
use hearth_bundle::syntax::{Compare, Constant, Expr, Unary};

/// The comparison in a function of one value, in the form that transforms use: `> 0.5`. `None` for
/// any other function.
pub(super) fn comparison(function: &Function) -> Option<String> {
    let [(parameter, None)] = &function.lambda.parameters[..] else { return None };
    let Expr::Compare(first, rest) = &function.lambda.body else { return None };
    let (Expr::Name(name), [(operator, number)]) = (&**first, &rest[..]) else { return None };
    let operator = match operator {
        Compare::Eq => "==",
        Compare::Ne => "!=",
        Compare::Lt => "<",
        Compare::Le => "<=",
        Compare::Gt => ">",
        Compare::Ge => ">=",
        Compare::In | Compare::NotIn | Compare::Is | Compare::IsNot => return None,
    };
    (name == parameter).then_some(())?;
    Some(format!("{operator} {}", constant(number)?))
}

fn constant(expr: &Expr) -> Option<f64> {
    match expr {
        Expr::Constant(Constant::Int(number)) => Some(*number as f64),
        Expr::Constant(Constant::Float(number)) => Some(*number),
        Expr::Unary(Unary::Neg, of) => constant(of).map(|number| -number),
        _ => None,
    }
}
