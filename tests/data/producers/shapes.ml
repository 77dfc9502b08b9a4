type shape = Circle of float | Rect of float * float
let area = function Circle r -> 3.14 *. r *. r | Rect (a, b) -> a *. b
module M = Map.Make(String)
let rec sum f = function [] -> 0. | x :: l -> f x +. sum f l
let () =
  let m = List.fold_left (fun m s -> M.add s (String.length s) m) M.empty (Array.to_list Sys.argv) in
  M.iter (fun k v -> Printf.printf "%s %d\n" k v) m;
  Printf.printf "%f\n" (sum area [Circle 1.; Rect (2., 3.)])
