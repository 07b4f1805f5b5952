# Each target does all of its own set-up, in .venv at this folder; nothing else is touched.
.PHONY: run test lint bench pictures app clean

run: ## make the environment, fetch the starter model, open the window
	@.ci/setup run
	@.ci/blas .venv/bin/python -m desktop

test: ## run the tests; ARGS goes to pytest
	@.ci/test $(ARGS)

lint: ## style and types
	@.ci/lint

# For example: make bench ARGS="--model starter --workload questions.jsonl --limit 2"
bench: ## measure drafting against plain decoding; ARGS goes to mlx-spec bench
	@.ci/setup run
	@.ci/blas .venv/bin/python -m mlx_spec bench $(ARGS)

pictures: ## the README's pictures, of the real window
	@.ci/setup dev
	@QT_QPA_PLATFORM=$${QT_QPA_PLATFORM:-offscreen} .ci/blas .venv/bin/python -m desktop.screenshot assets

# Unsigned but for this Mac: make app. For others: make app IDENTITY="Developer ID Application: ..."
app: ## the bundle and its disk image, on a Mac; tried by writing a token from it
	@.ci/app "$(IDENTITY)"

clean: ## remove the environment and what the tools leave
	rm -rf .venv build dist .pytest_cache .mypy_cache .ruff_cache ./*.egg-info
