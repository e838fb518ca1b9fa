// Command object-health tells how two tools judge objects: kstatus, the library of Flux and kapp, and a health script of Argo CD, run by the
// Lua interpreter that Argo CD has.
//
// It reads one request as JSON from standard input and writes a list of results in the order of its objects to standard output.
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	lua "github.com/yuin/gopher-lua"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	luajson "layeh.com/gopher-json"
	"sigs.k8s.io/cli-utils/pkg/kstatus/status"
)

type request struct {
	Objects []json.RawMessage `json:"objects"`
	// A health script, given the object as `obj`; without one Argo CD's part of the results is empty.
	Script string `json:"script"`
}

type judgement struct {
	Status  string `json:"status"`
	Message string `json:"message"`
}

type result struct {
	Kstatus judgement `json:"kstatus"`
	ArgoCD  judgement `json:"argoCD"`
}

func main() {
	if err := run(os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "object-health:", err)
		os.Exit(1)
	}
}

func run(input io.Reader, output io.Writer) error {
	var asked request
	if err := json.NewDecoder(input).Decode(&asked); err != nil {
		return fmt.Errorf("request: %w", err)
	}
	results := make([]result, 0, len(asked.Objects))
	for number, text := range asked.Objects {
		var found result
		var err error
		if found.Kstatus, err = kstatus(text); err != nil {
			return fmt.Errorf("object %d: kstatus: %w", number, err)
		}
		if asked.Script != "" {
			if found.ArgoCD, err = argoCD(text, asked.Script); err != nil {
				return fmt.Errorf("object %d: script: %w", number, err)
			}
		}
		results = append(results, found)
	}
	return json.NewEncoder(output).Encode(results)
}

func kstatus(text []byte) (judgement, error) {
	var object unstructured.Unstructured
	// Its own decoder gives whole numbers, such as generations, the type that the library looks for.
	if err := object.UnmarshalJSON(text); err != nil {
		return judgement{}, err
	}
	found, err := status.Compute(&object)
	if err != nil {
		return judgement{}, err
	}
	return judgement{found.Status.String(), found.Message}, nil
}

// argoCD runs a script as Argo CD does: with the libraries base, table and string, and no others.
func argoCD(text []byte, script string) (judgement, error) {
	state := lua.NewState(lua.Options{SkipOpenLibs: true})
	defer state.Close()
	for name, open := range map[string]lua.LGFunction{
		lua.BaseLibName: lua.OpenBase, lua.TabLibName: lua.OpenTable, lua.StringLibName: lua.OpenString,
	} {
		state.Push(state.NewFunction(open))
		state.Push(lua.LString(name))
		state.Call(1, 0)
	}
	object, err := luajson.Decode(state, text)
	if err != nil {
		return judgement{}, err
	}
	state.SetGlobal("obj", object)
	if err := state.DoString(script); err != nil {
		return judgement{}, err
	}
	table, ok := state.Get(-1).(*lua.LTable)
	if !ok {
		return judgement{}, errors.New("it must return a table")
	}
	return judgement{lua.LVAsString(table.RawGetString("status")), lua.LVAsString(table.RawGetString("message"))}, nil
}
