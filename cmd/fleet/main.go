// Command fleet manages AI coding agents. `fleet serve` runs the server. The other commands are clients of the server.
//
// This package only calls package app. It must not contain other code, because tests could not reach that code.
package main

import (
	"os"

	"fleet/internal/app"
)

func main() { os.Exit(app.Main(os.Args[1:])) }
