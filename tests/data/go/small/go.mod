module small

go 1.21
