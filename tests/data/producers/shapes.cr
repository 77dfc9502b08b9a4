class Shape
  getter w : Int32
  def initialize(@w); end
  def area; w * w; end
end
h = {} of String => Int32
ARGV.each { |a| h[a] = a.size }
10.times { |i| h[i.to_s] = Shape.new(i).area }
puts h, h.values.sum, (1..10).select(&.even?).map { |x| x * 2 }
