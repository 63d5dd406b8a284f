TERRAFORM := terraform -chdir=terraform

synth: package ## Check what would be deployed, without an account
	$(TERRAFORM) init -backend=false -input=false
	$(TERRAFORM) validate

deploy: package ## Deploy with the AWS credentials of your shell; a plan that would lose messages stops here
	$(TERRAFORM) init -input=false
	$(TERRAFORM) plan -input=false -out=deploy.tfplan
	$(TERRAFORM) show -json deploy.tfplan > plan.json
	$(TOWPATH) terraform gate plan.json
	$(TERRAFORM) apply -input=false deploy.tfplan
	$(TERRAFORM) output -json bindings > bindings.json
