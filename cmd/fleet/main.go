// Command fleet manages AI coding agents: `fleet serve` runs the server, the other commands are its clients.
//
// It only calls package app, and must never have code of its own that a test could not reach.
package main

import (
	"os"

	"fleet/internal/app"
)

func main() { os.Exit(app.Main(os.Args[1:])) }
