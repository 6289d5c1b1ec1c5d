package storetest_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"path/filepath"

	"fleet/internal/fleet"
	"fleet/internal/store/sqlite"
)

// To test a store, call the suite once:
//
//	func TestStore(t *testing.T) {
//		storetest.Run(t, func(t *testing.T) fleet.Store { return open(t) }) // open returns a new empty store
//	}
//
// This example shows promises on which the core relies. A transaction is all or nothing. A reader of events can continue
// after a cursor. The schema enforces rules that must always hold.
func Example() {
	dir, err := os.MkdirTemp("", "store")
	check(err)
	defer os.RemoveAll(dir)
	ctx := context.Background()
	store, err := sqlite.Open(ctx, filepath.Join(dir, "fleet.db"), sqlite.Config{}) // use your own store in your tests
	check(err)
	defer store.Close()

	// A change and its event are written in one transaction.
	create := func(name string) error {
		return store.Update(ctx, func(tx fleet.Tx) error {
			a := &fleet.Agent{UID: "uid-" + name, Name: name, Owner: "alice", State: fleet.StateRunning, Desired: fleet.DesiredRunning}
			if err := tx.Insert(a); err != nil {
				return err
			}
			return tx.Append(&fleet.Event{Type: fleet.EventAgentCreated, AgentUID: a.UID, AgentName: name, Owner: "alice"})
		})
	}
	check(create("ada"))
	cursor, err := store.LastSeq(ctx)
	check(err)
	check(create("otto"))

	// If the function fails, nothing is written, and the caller gets its error.
	errNo := errors.New("no")
	err = store.Update(ctx, func(tx fleet.Tx) error {
		check(tx.Append(&fleet.Event{Type: fleet.EventAgentDeleted, AgentUID: "uid-ada", AgentName: "ada", Owner: "alice"}))
		return errNo
	})
	fmt.Println("the error is the function's own:", errors.Is(err, errNo))

	// A reader that was disconnected reads the events after its cursor.
	check(store.View(ctx, func(tx fleet.ReadTx) error {
		events, err := tx.Events(fleet.EventFilter{}, fleet.EventWindow{After: cursor, Limit: 10})
		for _, e := range events {
			fmt.Println("after the cursor:", e.Type, e.AgentName)
		}
		return err
	}))

	// The schema refuses a second agent with the name and the owner of the first.
	fmt.Println("a second ada:", create("ada") != nil)
	// Output:
	// the error is the function's own: true
	// after the cursor: agent_created otto
	// a second ada: true
}

func check(err error) {
	if err != nil {
		log.Panic(err)
	}
}
