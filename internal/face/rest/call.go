package rest

import (
	"context"
	"net/http"
	"strconv"

	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/proto"

	"fleet/internal/face/encoded"
	"fleet/internal/face/wire"
)

// handler answers a request to a route. ctx is the context of the call to the service.
type handler func(ctx context.Context, w http.ResponseWriter, r *http.Request, rt *route, request proto.Message)

// call answers a request to a route. It identifies the caller before it reads the body.
func (f *face) call(w http.ResponseWriter, r *http.Request, rt *route, values []string) {
	ctx, err := f.identified(w, r, rt)
	if err != nil {
		if r.ContentLength != 0 { // do not wait for the rest of the body
			w.Header().Set("Connection", "close")
		}
		writeError(w, err)
		return
	}
	if r.ContentLength > f.config.MaxBodyBytes { // refuse before reading any of it
		w.Header().Set("Connection", "close")
		writeError(w, tooLarge(f.config.MaxBodyBytes))
		return
	}
	r.Body = http.MaxBytesReader(w, r.Body, f.config.MaxBodyBytes)
	request, err := rt.read(r, values)
	if err != nil {
		writeError(w, err)
		return
	}
	rt.handle(metadata.NewOutgoingContext(ctx, callMetadata(r)), w, r, rt, request)
}

// identified returns the context of the call for the caller of the request.
func (f *face) identified(w http.ResponseWriter, r *http.Request, rt *route) (context.Context, error) {
	if f.config.Identify == nil {
		return r.Context(), nil
	}
	ctx, err := f.config.Identify(r.Context(), rt.name, r.Header.Values("Authorization"))
	if err != nil && f.config.Challenge != nil && wire.HTTPStatus(err) == http.StatusUnauthorized {
		w.Header().Set("WWW-Authenticate", f.config.Challenge(r))
	}
	return ctx, err
}

// callMetadata returns the metadata of the call of a request: the face, the caller's credentials, and the W3C trace
// context. Other headers do not become metadata, because a caller could otherwise forge the metadata that parts of the
// server send each other.
func callMetadata(r *http.Request) metadata.MD {
	md := metadata.MD{"fleet-face": {"rest"}}
	if credentials := r.Header.Values("Authorization"); len(credentials) > 0 {
		md["authorization"] = credentials
	}
	for _, name := range []string{"Traceparent", "Tracestate"} {
		if v := r.Header.Get(name); v != "" {
			md.Set(name, v)
		}
	}
	return md
}

// unary calls a method that answers with one message, and writes the answer.
func (f *face) unary(ctx context.Context, w http.ResponseWriter, r *http.Request, rt *route, request proto.Message) {
	ctx, offer := encoded.NewOffer(ctx)
	answer := rt.answer.New().Interface()
	if err := f.conn.Invoke(ctx, rt.name, request, answer); err != nil {
		writeError(w, err)
		return
	}
	line, err := lineOf(answer, offer)
	if err != nil {
		writeError(w, err)
		return
	}
	if rt.list {
		writeList(w, r, line, offer)
		return
	}
	writeJSON(w, http.StatusOK, line)
}

// lineOf returns the answer of a call as one line of JSON: what the service has put into the offer, or its message.
func lineOf(answer proto.Message, offer *encoded.Offer) ([]byte, error) {
	if a := offer.Answer(); a != nil {
		return a.Line()
	}
	data, err := wire.Marshal(answer)
	return append(data, '\n'), err
}

// writeJSON writes the JSON. It ignores a write error, which means that the client has disconnected.
func writeJSON(w http.ResponseWriter, status int, data []byte) {
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Content-Length", strconv.Itoa(len(data)))
	w.WriteHeader(status)
	_, _ = w.Write(data)
}
