module geo
  implicit none
  type :: shape
    real :: w, h
  contains
    procedure :: area => shape_area
  end type
contains
  pure function shape_area(self) result(r)
    class(shape), intent(in) :: self
    real :: r
    r = self%w * self%h
  end function
  elemental real function sq(x)
    real, intent(in) :: x
    sq = x * x + 1.0
  end function
end module
program main
  use geo
  implicit none
  type(shape) :: s
  real :: v(100)
  integer :: i
  do i = 1, 100
    v(i) = inner(i)
  end do
  s = shape(2.0, sum(sq(v)))
  print *, s%area()
contains
  real function inner(k)
    integer, intent(in) :: k
    inner = sin(real(k)) * 2
    if (k > 50) inner = inner + sq(inner)
  end function
end program
