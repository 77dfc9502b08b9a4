use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BinaryHeap, HashMap, HashSet, LinkedList, VecDeque};
use std::ffi::{CStr, CString, OsString};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, RwLock};

#[derive(Clone, Copy)]
enum Colour {
    Red,
    Green = 5,
}
struct Point {
    x: i32,
    y: i64,
}
struct Pair(u8, f32);
struct Unit;
enum Shape {
    Empty,
    Circle(f64),
    Named { name: String, sides: u32 },
}
trait Speak {
    fn speak(&self) -> i32;
}
impl Speak for Point {
    fn speak(&self) -> i32 {
        self.x
    }
}

#[inline(never)]
fn depth(number: i32, text: &str, slice: &[u16], point: &Point) -> i32 {
    let flag = true;
    let letter = 'é';
    let small: u8 = 200;
    let large: u128 = 1 << 100;
    let real = 2.5f32;
    let unit = ();
    let owned = String::from("owned");
    let empty = String::new();
    let numbers = vec![1, 2, 3];
    let words = vec!["a".to_string(), "bc".to_string()];
    let array = [7i8; 20];
    let tuple = (1, "two", 3.5);
    let some = Some(7);
    let none: Option<i32> = None;
    let some_text = Some(String::from("text"));
    let no_text: Option<String> = None;
    let some_ref: Option<&Point> = Some(point);
    let good: Result<u32, String> = Ok(4);
    let bad: Result<u32, String> = Err("bad".into());
    let boxed = Box::new(Point { x: 5, y: 6 });
    let object: Box<dyn Speak> = Box::new(Point { x: 8, y: 9 });
    let counted = Rc::new(11);
    let another = counted.clone();
    let atomic = Arc::new(String::from("arc"));
    let cell = Cell::new(3);
    let borrowed = RefCell::new(4);
    let mut queue: VecDeque<i32> = VecDeque::with_capacity(4);
    queue.push_back(1);
    queue.push_back(2);
    queue.pop_front();
    queue.push_back(3);
    let mut map: HashMap<String, i32> = HashMap::new();
    map.insert("k".into(), 5);
    let set: HashSet<i32> = [42].into();
    let mut tree = BTreeMap::new();
    tree.insert(1, "one");
    tree.insert(2, "two");
    let path = PathBuf::from("/a/é");
    let borrowed_path = Path::new("/b");
    let system_text = OsString::from("os");
    let c_text = CString::new("c text").unwrap();
    let borrowed_c_text: &CStr = &c_text;
    let shared_text: Arc<str> = "shared".into();
    let shared_numbers: Rc<[u16]> = vec![9, 8].into();
    let units = [(), ()];
    let unit_slice: &[()] = &units;
    let lock = RwLock::new(6);
    let number_of_threads = AtomicUsize::new(77);
    let linked: LinkedList<i32> = [1, 2, 3].into();
    let largest_first: BinaryHeap<i32> = vec![3, 1, 2].into();
    let colour = Colour::Green;
    let red = Colour::Red;
    let pair = Pair(1, 2.5);
    let nothing = Unit;
    let shapes = [Shape::Empty, Shape::Circle(1.5), Shape::Named { name: "n".into(), sides: 4 }];
    let closure = |k: i32| k + number;
    let function: fn(i32) -> i32 = twice;
    let pointer: *const i32 = &number;
    let sum = closure(1) + function(2) + boxed.x + object.speak() + *another + atomic.len() as i32 + cell.get()
        + *borrowed.borrow() + queue[0] + map["k"] + set.len() as i32 + tree.len() as i32 + colour as i32 + red as i32
        + shapes.len() as i32 + pair.0 as i32 + words.len() as i32 + numbers[0] + array[3] as i32 + tuple.0
        + (slice.len() + text.len() + owned.len() + empty.len()) as i32 + small as i32 + large as i32 + real as i32;
    let _ = (&unit, &nothing, &some, &none, &some_text, &no_text, &some_ref, &good, &bad, pointer, flag, letter);
    let _ = (pair.1, boxed.y, tuple.1, tuple.2);
    let _ = (&path, borrowed_path, &system_text, borrowed_c_text, &shared_text, &shared_numbers, unit_slice, &lock);
    let _ = (&number_of_threads, &linked, &largest_first);
    if sum != -1 {
        std::process::abort();
    }
    sum
}

fn twice(k: i32) -> i32 {
    2 * k
}

fn main() {
    let point = Point { x: 3, y: 4 };
    std::process::exit(depth(-9, "text", &[1, 2, 3], &point));
}
