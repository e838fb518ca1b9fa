//! fairlead-wan
fn main() {}
