package model

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
)

// Gemini is Google's Gemini API.
const Gemini = "gemini"

// geminiParts are the parts of a message.
type geminiParts []struct {
	Text    string `json:"text"`
	Thought bool   `json:"thought"`
	Call    *struct {
		ID   string          `json:"id"`
		Name string          `json:"name"`
		Args json.RawMessage `json:"args"`
	} `json:"functionCall"`
	Result *struct {
		ID       string          `json:"id"`
		Name     string          `json:"name"`
		Response json.RawMessage `json:"response"`
	} `json:"functionResponse"`
}

// geminiRequest is the body of a request, as far as the server uses it.
type geminiRequest struct {
	System struct {
		Parts geminiParts `json:"parts"`
	} `json:"systemInstruction"`
	Contents []struct {
		Role  string      `json:"role"`
		Parts geminiParts `json:"parts"`
	} `json:"contents"`
	Tools []struct {
		Functions []struct {
			Name        string          `json:"name"`
			Description string          `json:"description"`
			Parameters  json.RawMessage `json:"parameters"`
			Schema      json.RawMessage `json:"parametersJsonSchema"`
		} `json:"functionDeclarations"`
	} `json:"tools"`
	Config struct {
		Temperature *float64 `json:"temperature"`
	} `json:"generationConfig"`
}

// parseGemini returns a parser for bodies of POST /v1beta/models/MODEL:METHOD. The path contains the model, and says
// whether the answer is streamed. Older versions of the API have no ids of calls, so the parser numbers the
// calls and uses the number of a call as its id.
func parseGemini(path string) func(body []byte) (Request, error) {
	model, method, _ := strings.Cut(path[strings.LastIndexByte(path, '/')+1:], ":")
	return func(body []byte) (Request, error) {
		var in geminiRequest
		if err := json.Unmarshal(body, &in); err != nil {
			return Request{}, err
		}
		r := Request{API: Gemini, Body: body, Model: model, Stream: method == "streamGenerateContent", Temperature: in.Config.Temperature}
		for _, p := range in.System.Parts {
			r.System += p.Text
		}
		calls, open := 0, []Call(nil) // open are the calls without a result
		for _, c := range in.Contents {
			message := Message{Role: "user"}
			if c.Role == "model" {
				message.Role = "assistant"
			}
			var texts []string
			for _, p := range c.Parts {
				switch {
				case p.Call != nil:
					calls++
					id := p.Call.ID
					if id == "" {
						id = fmt.Sprint(calls)
					}
					message.Calls = append(message.Calls, Call{id, p.Call.Name, p.Call.Args})
					open = append(open, Call{ID: id, Name: p.Call.Name})
				case p.Result != nil:
					result := Message{Role: "tool", Text: geminiResult(p.Result.Response)}
					// If Gemini CLI resumes a conversation, the ids and names of results may differ from those of
					// the calls, and results may occur twice. A result without a call of its name belongs to the
					// first open call. A result without an open call is left out.
					at := slices.IndexFunc(open, func(c Call) bool { return c.ID == p.Result.ID })
					if at < 0 {
						at = max(0, slices.IndexFunc(open, func(c Call) bool { return c.Name == p.Result.Name }))
					}
					if at < len(open) {
						result.CallID = open[at].ID
						open = slices.Delete(open, at, at+1)
						r.Messages = append(r.Messages, result)
					}
				case p.Text != "" && !p.Thought:
					texts = append(texts, p.Text)
				}
			}
			if message.Text = strings.Join(texts, "\n"); message.Text != "" || len(message.Calls) > 0 {
				r.Messages = append(r.Messages, message)
			}
		}
		for _, t := range in.Tools {
			for _, f := range t.Functions {
				schema := f.Schema
				if schema == nil {
					schema = f.Parameters
				}
				r.Tools = append(r.Tools, Tool{f.Name, f.Description, schema})
			}
		}
		return r, nil
	}
}

// geminiResult returns the output or the error in a tool's result, or the whole JSON if it has neither.
func geminiResult(response json.RawMessage) string {
	var r struct{ Output, Error string }
	if json.Unmarshal(response, &r) == nil && r.Output+r.Error != "" {
		return r.Output + r.Error
	}
	return string(response)
}

// gemini writes answers of the Gemini API.
type gemini struct {
	eventStream
	request Request
	parts   []any // the parts of an answer that is not streamed
}

func newGeminiWriter(w http.ResponseWriter, q Request) writer {
	return &gemini{eventStream: eventStream{w}, request: q}
}

func (g *gemini) fail(status int, message string) {
	writeJSON(g.w, status, map[string]any{"error": map[string]any{"code": status, "message": message, "status": strings.ToUpper(errorKind(status))}})
}

func (g *gemini) chunk(parts []any, finish string) map[string]any {
	if parts == nil {
		parts = []any{map[string]any{"text": ""}}
	}
	candidate := map[string]any{"index": 0, "content": map[string]any{"role": "model", "parts": parts}}
	if finish != "" {
		candidate["finishReason"] = finish
	}
	return map[string]any{"candidates": []any{candidate}, "modelVersion": g.request.Model, "responseId": "stub"}
}

func (g *gemini) begin() {
	if g.request.Stream {
		g.open()
	}
}

func (g *gemini) writePart(p map[string]any) {
	if !g.request.Stream {
		g.parts = append(g.parts, p)
		return
	}
	g.send("", g.chunk([]any{p}, ""))
}

func (g *gemini) writeThought(s string) { g.writePart(map[string]any{"text": s, "thought": true}) }

func (g *gemini) writeText(s string) { g.writePart(map[string]any{"text": s}) }

func (g *gemini) writeCall(c Call) {
	g.writePart(map[string]any{"functionCall": map[string]any{"id": c.ID, "name": c.Name, "args": c.Input}})
}

func (g *gemini) end(bool) {
	last := g.chunk(g.parts, "STOP")
	last["usageMetadata"] = map[string]any{"promptTokenCount": InputTokens, "candidatesTokenCount": OutputTokens, "totalTokenCount": InputTokens + OutputTokens}
	if !g.request.Stream {
		writeJSON(g.w, http.StatusOK, last)
		return
	}
	g.send("", last)
}
