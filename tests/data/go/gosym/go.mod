module gosym

go 1.21
