//! fairlead-mover
fn main() {}
