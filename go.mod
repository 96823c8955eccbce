module forge

go 1.26
