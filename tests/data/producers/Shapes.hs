module Main where
import qualified Data.Map as M
import Data.List (sortBy, foldl')
data Shape = Circle Double | Rect Double Double
area :: Shape -> Double
area (Circle r) = 3 * r * r
area (Rect a b) = a * b
main :: IO ()
main = do
  let m = foldl' (\acc w -> M.insertWith (+) w (1::Int) acc) M.empty (words "a b a c")
  print (M.toList m)
  print (sum (map area [Circle 1, Rect 2 3]))
