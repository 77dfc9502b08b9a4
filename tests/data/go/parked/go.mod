module parked

go 1.17
