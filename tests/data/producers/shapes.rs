use std::collections::{HashMap, BTreeMap};
trait Shape { fn area(&self) -> f64; }
struct C(f64); struct R(f64, f64);
impl Shape for C { fn area(&self) -> f64 { self.0 * self.0 * 3.0 } }
impl Shape for R { fn area(&self) -> f64 { self.0 * self.1 } }
fn apply<F: Fn(i32) -> i32>(f: F, n: i32) -> i32 { (0..n).map(|x| f(x)).filter(|x| x % 3 == 0).sum() }
macro_rules! sq { ($x:expr) => { $x * $x } }
fn main() { let mut m: HashMap<String, usize> = HashMap::new(); for w in std::env::args() { *m.entry(w).or_default() += 1; }
 let v: Vec<Box<dyn Shape>> = vec![Box::new(C(1.0)), Box::new(R(2.0, 3.0))];
 let b: BTreeMap<_, _> = m.iter().collect();
 println!("{:?} {} {}", b, v.iter().map(|s| s.area()).sum::<f64>(), apply(|x| sq!(x) + 1, 100));
 let r = std::panic::catch_unwind(|| { let v: Vec<i32> = vec![]; v[0] }); println!("{}", r.is_err()); }
