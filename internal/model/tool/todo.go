//go:build cgo

package tool

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"github.com/docker/cagent/pkg/tools"
	"github.com/docker/cagent/pkg/tools/builtin"

	"fleet/internal/fleet"
	"fleet/internal/runner"
)

const (
	maxTodos    = 1000    // per list
	maxTodoText = 4 << 10 // characters
)

// todos is the library's todo toolset, with a list that is stored in a directory of the agent. The library's own list is lost
// at the end of a run, and its shared list is the same for all agents of the process.
type todos struct {
	tools.BaseToolSet
	dir  dataDir
	file string // the agents of a definition can share a file
}

// NewTodos returns the tools for a list of todos, which is stored in the directory. It is the list of the definition's agent with
// the name, or, if shared is true, the list that all agents of the definition share.
func NewTodos(dir, agent string, shared bool) tools.ToolSet {
	file := "todos.json"
	if !shared {
		file = "todos-" + runner.FileName(agent) + ".json"
	}
	return &todos{dir: dataDir(dir), file: file}
}

// Instructions implements tools.ToolSet.
func (*todos) Instructions() string { return builtin.NewTodoTool().Instructions() }

// Tools implements tools.ToolSet. It uses the schemas of the library.
func (t *todos) Tools(ctx context.Context) ([]tools.Tool, error) {
	all, err := builtin.NewTodoTool().Tools(ctx)
	if err != nil {
		return nil, err
	}
	handlers := map[string]tools.ToolHandler{
		builtin.ToolNameCreateTodo: listHandler(t, func(list *[]builtin.Todo, args builtin.CreateTodoArgs) (string, error) {
			return addTodos(list, []string{args.Description})
		}),
		builtin.ToolNameCreateTodos: listHandler(t, func(list *[]builtin.Todo, args builtin.CreateTodosArgs) (string, error) {
			return addTodos(list, args.Descriptions)
		}),
		builtin.ToolNameUpdateTodo: listHandler(t, updateTodo),
		builtin.ToolNameListTodos:  listHandler(t, listTodos),
	}
	known := all[:0]
	for _, tool := range all {
		if tool.Handler = handlers[tool.Name]; tool.Handler != nil { // tools that a newer library has added would use its own list
			known = append(known, tool)
		}
	}
	return known, nil
}

// listHandler returns a handler that reads the list, calls do, and writes the list if do has changed it. The model receives an
// error of do as the tool's result, and the list stays unchanged.
func listHandler[T any](t *todos, do func(*[]builtin.Todo, T) (string, error)) tools.ToolHandler {
	return builtin.NewHandler(func(_ context.Context, args T) (res *tools.ToolCallResult, err error) {
		err = t.dir.withLock(func() error {
			var list []builtin.Todo
			if err := t.dir.read(t.file, &list); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return errors.New("cannot read the list")
			}
			before := slices.Clone(list)
			text, err := do(&list, args)
			if err != nil {
				res = tools.ResultError(err.Error())
				return nil
			}
			if !slices.Equal(before, list) {
				if err := t.dir.write(t.file, list); err != nil {
					return errors.New("cannot write the list")
				}
			}
			res = tools.ResultSuccess(text)
			return nil
		})
		return res, err
	})
}

func addTodos(list *[]builtin.Todo, descriptions []string) (string, error) {
	if len(*list)+len(descriptions) > maxTodos {
		return "", fmt.Errorf("the list is full: the limit is %d todos", maxTodos)
	}
	var out []string
	for _, d := range descriptions {
		todo := builtin.Todo{ID: fmt.Sprintf("todo_%d", len(*list)+1), Description: fleet.Shorten(d, maxTodoText), Status: "pending"}
		*list = append(*list, todo)
		out = append(out, fmt.Sprintf("Created todo [%s]: %s", todo.ID, todo.Description))
	}
	return strings.Join(out, "\n"), nil
}

func updateTodo(list *[]builtin.Todo, args builtin.UpdateTodoArgs) (string, error) {
	i := slices.IndexFunc(*list, func(t builtin.Todo) bool { return t.ID == args.ID })
	if i < 0 {
		return "", fmt.Errorf("todo [%s] not found", args.ID)
	}
	(*list)[i].Status = fleet.Shorten(args.Status, maxTodoText)
	return fmt.Sprintf("Updated todo [%s] to status: [%s]", args.ID, args.Status), nil
}

func listTodos(list *[]builtin.Todo, _ struct{}) (string, error) {
	var out strings.Builder
	out.WriteString("Current todos:\n")
	for _, t := range *list {
		fmt.Fprintf(&out, "- [%s] %s (Status: %s)\n", t.ID, t.Description, t.Status)
	}
	return out.String(), nil
}
