// Command client is fleet without the server's packages. Initializing the variables of those packages takes most of
// fleet's start time. Test scripts start fleet hundreds of times, so `make race` lets some scripts start this program
// instead.
package main

import (
	"context"
	"os"

	"fleet/internal/face/cli"
)

func main() { os.Exit(cli.Run(context.Background(), os.Args[1:], cli.Deps{Version: "test"})) }
