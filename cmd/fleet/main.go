// Command fleet manages AI coding agents: `fleet serve` runs the server, the other commands are its clients.
package main

import (
	"os"

	"fleet/internal/app"
)

func main() { os.Exit(app.Main(os.Args[1:])) }
