//! Encode the stack of a thread as a stack token (docs/formats/stack-token.md). Linux, 64 bits, no dependencies.

use std::{os::raw::{c_char, c_int, c_void}, ptr::addr_of_mut};

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
const LENGTHS: [u32; 8] = [1, 2, 3, 4, 5, 6, 8, 11];
const FRAMES: usize = 64;
const MODULES: usize = 31;
const NO_MODULE: usize = 63;
const PT_LOAD: u32 = 1;
const PT_NOTE: u32 = 4;
const NT_GNU_BUILD_ID: u32 = 3;

#[repr(C)]
struct Segment { kind: u32, flags: u32, offset: u64, vaddr: u64, paddr: u64, file_size: u64, memory_size: u64, align: u64 }
#[repr(C)]
struct Info { bias: u64, name: *const c_char, segments: *const Segment, count: u16 }
struct Query { pc: u64, bias: u64, id: u64 }

extern "C" {
    fn _Unwind_Backtrace(visit: extern "C" fn(*mut c_void, *mut c_void) -> c_int, data: *mut c_void) -> c_int;
    fn _Unwind_GetIP(context: *mut c_void) -> usize;
    fn dl_iterate_phdr(visit: extern "C" fn(*const Info, usize, *mut c_void) -> c_int, data: *mut c_void) -> c_int;
}

extern "C" fn add_frame(context: *mut c_void, pcs: *mut c_void) -> c_int {
    let (pc, pcs) = unsafe { (_Unwind_GetIP(context) as u64, &mut *pcs.cast::<Vec<u64>>()) };
    if pc == 0 || pcs.len() == FRAMES { return 5; }
    pcs.push(pc);
    0
}

fn padded(size: usize) -> usize { (size + 3) & !3 }

/// The first five bytes of the build-id among notes.
fn build_id(notes: &[u8]) -> u64 {
    let word = |offset: usize| u32::from_ne_bytes(notes[offset..offset + 4].try_into().unwrap());
    let mut offset = 0;
    while offset + 12 < notes.len() {
        let (name, size, kind) = (word(offset) as usize, word(offset + 4) as usize, word(offset + 8));
        let id = offset + 12 + padded(name);
        if kind == NT_GNU_BUILD_ID && size >= 5 && notes[offset + 12..].starts_with(b"GNU\0") {
            return notes[id..id + 5].iter().fold(0, |value, byte| value << 8 | u64::from(*byte));
        }
        offset = id + padded(size);
    }
    0
}

extern "C" fn find_module(info: *const Info, _: usize, query: *mut c_void) -> c_int {
    let (info, query) = unsafe { (&*info, &mut *query.cast::<Query>()) };
    let (mut inside, mut id) = (false, 0);
    for segment in unsafe { std::slice::from_raw_parts(info.segments, info.count as usize) } {
        let start = info.bias.wrapping_add(segment.vaddr);
        if segment.kind == PT_LOAD { inside |= query.pc.wrapping_sub(start) < segment.memory_size; }
        if segment.kind == PT_NOTE && id == 0 {
            id = build_id(unsafe { std::slice::from_raw_parts(start as *const u8, segment.memory_size as usize) });
        }
    }
    if inside { (query.bias, query.id) = (info.bias, id); }
    inside as c_int
}

fn put(text: &mut String, value: u64, count: u32) {
    for index in (0..count).rev() {
        text.push(ALPHABET[(value.checked_shr(6 * index).unwrap_or(0) & 63) as usize] as char);
    }
}

/// Return the token of the calling thread's stack.
pub fn stack_token() -> String {
    let mut pcs = Vec::<u64>::with_capacity(FRAMES);
    unsafe { _Unwind_Backtrace(add_frame, addr_of_mut!(pcs).cast()) };
    let (mut modules, mut frames) = (Vec::<Query>::new(), Vec::new());
    for pc in pcs {
        let mut query = Query { pc: pc - 1, bias: 0, id: 0 };
        let found = unsafe { dl_iterate_phdr(find_module, addr_of_mut!(query).cast()) } != 0;
        let known = modules.iter().position(|module| module.bias == query.bias);
        let number = if !found || known.is_none() && modules.len() == MODULES { NO_MODULE } else { known.unwrap_or(modules.len()) };
        frames.push((number, if number == NO_MODULE { pc } else { pc.wrapping_sub(query.bias) }));
        if number == modules.len() { modules.push(query); }
    }
    let mut text = String::new();
    put(&mut text, 32 | modules.len() as u64, 1); // the first address is a return address, too
    for module in &modules { put(&mut text, module.id << 2, 7); }
    let (mut current, mut previous) = (0, [0u64; NO_MODULE + 1]);
    for (number, address) in frames {
        let magnitude = address.abs_diff(previous[number]);
        let code = LENGTHS.iter().position(|length| magnitude.checked_shr(6 * length).unwrap_or(0) < 2).unwrap();
        let high = magnitude.checked_shr(6 * LENGTHS[code]).unwrap_or(0);
        let negative = (address < previous[number]) as u64;
        put(&mut text, ((number != current) as u64) << 5 | negative << 4 | (code as u64) << 1 | high, 1);
        if number != current { put(&mut text, number as u64, 1); }
        put(&mut text, magnitude, LENGTHS[code]);
        (current, previous[number]) = (number, address);
    }
    let check = text.bytes().fold(0x811C9DC5u32, |check, byte| (check ^ u32::from(byte)).wrapping_mul(0x01000193));
    put(&mut text, u64::from(check ^ check >> 12 ^ check >> 24) & 0xFFF, 2);
    format!("wst1.{text}")
}
