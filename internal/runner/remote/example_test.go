package remote_test

import (
	"context"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"

	"fleet/internal/fleet"
	"fleet/internal/place/fake"
	"fleet/internal/runner/remote"
)

// In a workspace, a Server serves the runners of a place. In Fleet, a place calls it through Clients, over any
// http.RoundTripper that reaches the workspace.
func Example() {
	// Fleet has a key. The workspace gets the public key, for example in FLEET_PUBLIC_KEY.
	key, err := remote.PrivateKey(remote.NewSeed())
	check(err)
	public, err := remote.ParsePublicKey(remote.FormatPublicKey(key))
	check(err)

	// In the workspace.
	workspace := fake.New(fake.Config{}) // fleet-runner uses package runner
	defer workspace.Destroy()
	server, err := remote.NewServer(workspace, remote.ServerConfig{Key: public, Version: "v1"})
	check(err)
	listener := httptest.NewServer(server.Handler())
	defer listener.Close()

	// In Fleet, the method Connect of a place returns such a runner.
	agent := fleet.Agent{UID: "a1", Name: "papi", Owner: "alice", Project: "Setup", Role: "operator"}
	_, err = workspace.Provision(context.Background(), agent)
	check(err)
	var clients remote.Clients
	transport := &http.Transport{} // a place in a cluster uses its port-forward here
	defer transport.CloseIdleConnections()
	papi := clients.Get(remote.ClientConfig{URL: listener.URL, Key: key, HTTP: &http.Client{Transport: transport}}).Connect(agent)

	run := fleet.Run{TaskID: "1", Prompt: "echo working\ndone all well", Timeout: fleet.DefaultCheckTimeout}
	check(papi.Dispatch(context.Background(), run))
	outcome, err := papi.Follow(context.Background(), run, "", func(o fleet.Output) error {
		fmt.Println(o.Text)
		return nil
	})
	check(err)
	fmt.Println(outcome.Status, "-", outcome.Summary)

	// Other callers are refused: the runner accepts only requests that this Fleet has signed.
	otherKey, err := remote.PrivateKey(remote.NewSeed())
	check(err)
	stranger := remote.NewClient(remote.ClientConfig{URL: listener.URL, Key: otherKey, HTTP: &http.Client{Transport: transport}}).Connect(agent)
	fmt.Println(fleet.ReasonOf(stranger.Interrupt(context.Background(), run, true)))
	// Output:
	// working
	// completed - all well
	// UNAUTHENTICATED
}

func check(err error) {
	if err != nil {
		log.Panic(err)
	}
}
