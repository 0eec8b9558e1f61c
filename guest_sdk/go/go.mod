module rho

go 1.25
