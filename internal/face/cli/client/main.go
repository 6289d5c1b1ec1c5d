// Command client is the client part of fleet. The program has the server's packages too, whose variables take most of the time
// of a start. Scripts start the command hundreds of times, so `make race` lets some of them start this one.
package main

import (
	"context"
	"os"

	"fleet/internal/face/cli"
)

func main() { os.Exit(cli.Run(context.Background(), os.Args[1:], cli.Deps{Version: "test"})) }
