package peer

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"time"

	"fleet/internal/fleet"
	"fleet/internal/state"
)

// placePath is the URL path at which a server accepts the requests of other servers about its places.
const placePath = "/place"

// maxPlaceResponse is the maximum size of a response, in bytes. It is large because only the number of a log's lines is limited.
const maxPlaceResponse = 64 << 20

// placeRequest is a request to call one of the methods of state.PlaceReader.
type placeRequest struct {
	Place   string `json:"place"`
	Method  string `json:"method"` // the name of the method
	Project string `json:"project,omitempty"`
	Agent   string `json:"agent,omitempty"` // uid
	Lines   int    `json:"lines,omitempty"`
}

// placeResponse has the results of the called method, or its error.
type placeResponse struct {
	Projects []fleet.Project  `json:"projects,omitempty"`
	Roles    []fleet.Role     `json:"roles,omitempty"`
	Log      []string         `json:"log,omitempty"`
	More     bool             `json:"more,omitempty"` // the log has earlier lines
	Kept     []fleet.KeptWork `json:"kept,omitempty"`
	Unsaved  string           `json:"unsaved,omitempty"`
	Error    *placeError      `json:"error,omitempty"`
}

// placeError is the JSON form of a fleet.Error.
type placeError struct {
	Reason   fleet.Reason      `json:"reason"`
	Message  string            `json:"message"`
	NextStep string            `json:"next_step,omitempty"`
	Metadata map[string]string `json:"metadata,omitempty"`
}

// handler returns the handler for the requests of other servers. It passes requests to runners on to the handler runners. Only
// servers of this fleet can connect; see sharedTLS.
func (p *Peers) handler(runners http.Handler) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("/", runners)
	mux.HandleFunc("POST "+placePath, func(w http.ResponseWriter, r *http.Request) {
		var q placeRequest
		if err := json.NewDecoder(io.LimitReader(r.Body, 1<<20)).Decode(&q); err != nil {
			http.Error(w, "the request cannot be read as JSON", http.StatusBadRequest)
			return
		}
		response, err := p.callPlace(r.Context(), q)
		if err != nil {
			e, ok := errors.AsType[*fleet.Error](err)
			if !ok {
				p.config.Log.ErrorContext(r.Context(), "request of another server failed", slog.String("method", q.Method), slog.Any("error", err))
				e = fleet.Errorf(fleet.ReasonInternal, "the request failed on the server %s: its log says why", p.config.Replica)
			}
			response.Error = &placeError{e.Reason, e.Message, e.NextStep, e.Metadata}
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(response) // the other server sees that it is incomplete
	})
	return mux
}

// callPlace calls the method of the place. It returns BACKEND_UNAVAILABLE if this server does not have the place.
func (p *Peers) callPlace(ctx context.Context, q placeRequest) (response placeResponse, err error) {
	place := p.config.Place(q.Place)
	if place == nil {
		return response, fleet.Errorf(fleet.ReasonBackendUnavailable, "the server %s does not have the place %q: start it with that place again", p.config.Replica, fleet.Shorten(q.Place, 80))
	}
	switch q.Method {
	case "Projects":
		response.Projects, err = place.Projects(ctx)
	case "Roles":
		response.Roles, err = place.Roles(ctx, q.Project)
	case "Kept":
		if k, ok := place.(fleet.Keeper); ok {
			response.Kept, err = k.KeptWork(ctx, q.Agent)
		}
	case "Log", "Unsaved":
		agent, aerr := p.localAgent(ctx, q.Agent)
		e, examines := place.(fleet.Examiner)
		switch {
		case aerr != nil:
			err = aerr
		case agent.Place != q.Place:
			err = errNotHere
		case q.Method == "Log":
			response.Log, response.More, err = place.Log(ctx, *agent, q.Lines)
		case !examines:
			err = fleet.Errorf(fleet.ReasonUnimplemented, "%s does not examine workspaces", q.Place)
		default:
			response.Unsaved, err = e.UnsavedWork(ctx, *agent)
		}
	default:
		err = fleet.Errorf(fleet.ReasonUnimplemented, "the server %s does not support %s: it may be older, so upgrade it", p.config.Replica, fleet.Shorten(q.Method, 40))
	}
	return response, err
}

var errNotHere = fleet.Errorf(fleet.ReasonAgentNotFound, "the agent is not on this machine")

// localAgent returns the agent with the uid. It returns AGENT_NOT_FOUND if the store does not have the agent, or if this server does
// not have the agent's place.
func (p *Peers) localAgent(ctx context.Context, uid string) (a *fleet.Agent, err error) {
	err = p.config.Store.View(ctx, func(tx fleet.ReadTx) (err error) {
		a, err = tx.Agent(uid)
		return err
	})
	if err == nil && (a == nil || p.config.Place(a.Place) == nil) {
		err = errNotHere
	}
	return a, err
}

// Place implements state.OtherServers. It sends no request; the methods of the reader do.
func (p *Peers) Place(server, name string) state.PlaceReader {
	return placeReader{peers: p, server: server, name: name}
}

// placeReader reads from a place of another server.
type placeReader struct {
	peers        *Peers
	server, name string
}

func (r placeReader) Projects(ctx context.Context) ([]fleet.Project, error) {
	resp, err := r.call(ctx, placeRequest{Method: "Projects"})
	return resp.Projects, err
}

func (r placeReader) Roles(ctx context.Context, project string) ([]fleet.Role, error) {
	resp, err := r.call(ctx, placeRequest{Method: "Roles", Project: project})
	return resp.Roles, err
}

func (r placeReader) Log(ctx context.Context, agent fleet.Agent, lines int) ([]string, bool, error) {
	resp, err := r.call(ctx, placeRequest{Method: "Log", Agent: agent.UID, Lines: lines})
	return resp.Log, resp.More, err
}

func (r placeReader) KeptWork(ctx context.Context, uid string) ([]fleet.KeptWork, error) {
	resp, err := r.call(ctx, placeRequest{Method: "Kept", Agent: uid})
	return resp.Kept, err
}

func (r placeReader) UnsavedWork(ctx context.Context, agent fleet.Agent) (string, error) {
	resp, err := r.call(ctx, placeRequest{Method: "Unsaved", Agent: agent.UID})
	return resp.Unsaved, err
}

// call sends the request to the other server and returns its response.
func (r placeReader) call(ctx context.Context, q placeRequest) (response placeResponse, err error) {
	q.Place = r.name
	address, err := r.peers.addressOf(ctx, r.server)
	if err != nil {
		return response, err
	}
	unavailable := fleet.Errorf(fleet.ReasonBackendUnavailable, "%s is on the machine of the server %s, which does not answer: start that server, or try again later", r.name, r.server).With("server", r.server)
	if address == "" {
		return response, unavailable
	}
	ctx, cancel := context.WithTimeout(ctx, placeTimeout)
	defer cancel()
	body, err := json.Marshal(q)
	if err != nil {
		return response, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "https://"+address+placePath, bytes.NewReader(body))
	if err != nil {
		return response, err
	}
	resp, err := r.peers.http.Do(req)
	if err != nil {
		return response, unavailable.WithCause(err)
	}
	defer func() { _ = resp.Body.Close() }()
	switch resp.StatusCode {
	case http.StatusOK:
	case http.StatusNotFound:
		return response, fleet.Errorf(fleet.ReasonUnimplemented, "the server %s, which %s is on, is older and does not answer other servers: call that server directly, or upgrade it", r.server, r.name).With("server", r.server)
	default:
		return response, unavailable.WithCause(errors.New(resp.Status))
	}
	if err := json.NewDecoder(io.LimitReader(resp.Body, maxPlaceResponse)).Decode(&response); err != nil {
		return placeResponse{}, unavailable.WithCause(err)
	}
	if e := response.Error; e != nil {
		err := fleet.Errorf(cmp.Or(e.Reason, fleet.ReasonInternal), "%s", e.Message)
		err.NextStep, err.Metadata = e.NextStep, e.Metadata
		return placeResponse{}, err
	}
	return response, nil
}

// placeTimeout is how long another server may take to respond to a request about its place.
const placeTimeout = 30 * time.Second
