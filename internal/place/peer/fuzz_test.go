package peer

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"fleet/internal/fleet"
	"fleet/internal/place/fake"
)

// agentlessStore is a store that has the address of the server "other", and no agents.
type agentlessStore struct{ fleet.Store }

func (agentlessStore) Leases(context.Context, string) (map[string]string, error) {
	return map[string]string{leasePrefix + "other": "other:1"}, nil
}

func (agentlessStore) View(context.Context, func(fleet.ReadTx) error) error { return nil }

// FuzzPlaceRequest checks that a server responds to any request of another server with valid JSON, or refuses the
// request.
func FuzzPlaceRequest(f *testing.F) {
	f.Add([]byte(`{"place":"fake","method":"Projects"}`))
	f.Add([]byte(`{"place":"fake","method":"Roles","project":"\ud800"}`))
	f.Add([]byte(`{"place":"fake","method":"Log","agent":"x","lines":-9223372036854775808}`))
	f.Add([]byte(`{"place":{},"method":null}[`))
	place := fake.New(fake.Config{})
	f.Cleanup(place.Destroy)
	places := map[string]fleet.Place{"fake": place}
	p := &Peers{config: Config{Place: func(name string) fleet.Place { return places[name] }, Store: agentlessStore{}, Log: slog.New(slog.DiscardHandler)}}
	handler := p.handler(http.NotFoundHandler())
	f.Fuzz(func(t *testing.T, body []byte) {
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodPost, placePath, bytes.NewReader(body)))
		var response placeResponse
		switch w.Code {
		case http.StatusBadRequest:
		case http.StatusOK:
			require.NoError(t, json.Unmarshal(w.Body.Bytes(), &response))
			require.True(t, response.Error == nil || response.Error.Reason != "", "%s", w.Body)
		default:
			t.Fatal(w.Code)
		}
	})
}

// fixedResponse is a transport that responds to each request with the text.
type fixedResponse []byte

func (f fixedResponse) RoundTrip(*http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(bytes.NewReader(f))}, nil
}

// FuzzPlaceResponse checks that the caller gets a result or an error with a reason, whatever another server responds. The other
// server may be newer.
func FuzzPlaceResponse(f *testing.F) {
	f.Add([]byte(`{"projects":[{"Name":"a"},null],"roles":[{}],"log":["\u0000"],"more":true}`))
	f.Add([]byte(`{"error":{"reason":"NEWER_REASON","message":"%s","next_step":"{x","metadata":{"a":"\ud800"}}}`))
	f.Add([]byte(`{"error":{}}`))
	f.Add([]byte(`{"projects":1}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		p := &Peers{config: Config{Store: agentlessStore{}}, http: &http.Client{Transport: fixedResponse(body), Timeout: time.Minute}}
		place := p.Place("other", "local")
		_, err := place.Projects(t.Context())
		_, _, err2 := place.Log(t.Context(), fleet.Agent{}, 1)
		require.Equal(t, err, err2)
		if err != nil {
			require.NotEmpty(t, fleet.ReasonOf(err))
		}
	})
}
