// Program stub serves a stub of the APIs of language models, for demonstrations without a key. The prompts contain the
// answers: see package model. The program prints its URL and serves until it receives SIGINT or SIGTERM.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"fleet/internal/place/placetest/model"
)

func main() {
	listen := flag.String("listen", "127.0.0.1:0", "`address` to listen on")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	s, err := model.Listen(*listen)
	if err != nil {
		fmt.Fprintln(os.Stderr, "stub:", err)
		stop()
		os.Exit(1)
	}
	fmt.Println(s.URL)
	<-ctx.Done()
	s.Close()
}
